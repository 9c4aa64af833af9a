export { type Client, createClient, type Reply } from "./api/client.ts";
export { defaultModel, type Model, models } from "./api/models.ts";
export type { Generation, Started, StartRequest } from "./api/schema.ts";
export { type ErrorCode, VidgenError } from "./errors.ts";
