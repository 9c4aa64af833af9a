export {
  type CallOptions,
  type Client,
  type ClientOptions,
  createClient,
  type DownloadOptions,
  type FollowOptions,
} from "./client/client.ts";
export type { Completed } from "./client/follow.ts";
export { defaultModel, type Model, models } from "./client/models.ts";
export type { Generation, Started, StartRequest } from "./client/schema.ts";
export { type ErrorCode, VidgenError } from "./errors.ts";
