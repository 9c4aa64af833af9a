export { type Client, createClient, type Reply } from "./api/client.ts";
export { defaultModel, type Model, models } from "./api/models.ts";
export type { Generation, Started, StartRequest } from "./api/schema.ts";
export { type ErrorCode, VidgenError } from "./errors.ts";
export { type Completed, type FollowOptions, follow, localPace, remotePace } from "./generations/follow.ts";
export { type StartOptions, start } from "./generations/start.ts";
export { type Clock, type Io, systemIo } from "./io.ts";
