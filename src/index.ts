export { defaultModel, type Model, models } from "./api/models.ts";
export type { Generation, Started, StartRequest } from "./api/schema.ts";
export { type ErrorCode, VidgenError } from "./errors.ts";
export type { Completed } from "./generations/follow.ts";
export {
  type CallOptions,
  type Client,
  type ClientOptions,
  createClient,
  type DownloadOptions,
  type FollowOptions,
} from "./library.ts";
