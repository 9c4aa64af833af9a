import type { SignedHeaders } from "../../callbacks/signature.ts";
import {
  idempotencyKey,
  idParameter,
  notFound,
  notStarted,
  refusal,
  reply,
  requestBody,
  retryAfter,
  startNote,
  startParameters,
  toAccount,
  toAnybody,
  toOwner,
} from "./replies.ts";
import { videoPaths } from "./video-operations.ts";

const started = {
  id: "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
  status: "processing",
  model: "veo-3.1",
  prompt: "a red fox runs through snow at dusk",
  created_at: "2026-01-01T00:00:00.000Z",
};
const { model, prompt, ...processing } = { ...started, video_url: null, thumbnail_url: null };
const video_url = `http://127.0.0.1:8788/${started.id}.mp4`;
const thumbnail_url = `http://127.0.0.1:8788/${started.id}.png`;
const completed = { ...processing, status: "completed", video_url, thumbnail_url };

const generations = { tags: ["generations"] };
const owner = { tags: ["owner"] };
const noAccount = refusal(404, "no_account", "there is no account ci");
/** For load balancers and generators of clients: without a key. */
const open = { tags: ["service"], security: [] };

export const paths = {
  "/api/generate": {
    post: {
      ...generations,
      operationId: "start",
      summary: "Starts a generation, which is charged",
      description: startNote,
      parameters: startParameters,
      requestBody: requestBody("Start", { prompt, model, aspectRatio: "16:9", duration: 5 }),
      responses: {
        200: reply("It has started", "Started", {
          success: true,
          data: started,
          credits_charged: 10,
          remaining_credits: 990,
        }),
        ...notStarted,
        ...refusal(415, "unsupported_media_type", "the body must be application/json"),
        ...toAccount,
      },
    },
  },
  "/api/generation-status": {
    get: {
      ...generations,
      operationId: "status",
      summary: "Returns a generation; poll it every 5 to 10 seconds",
      parameters: [idParameter("query")],
      responses: {
        200: reply("The generation", "Generation", completed),
        ...refusal(400, "invalid_id", "the query parameter id is missing"),
        ...notFound,
        ...toAccount,
      },
    },
  },
  "/api/cancel": {
    post: {
      ...generations,
      operationId: "cancel",
      summary: "Cancels a generation: it ends as failed, and its credits are returned",
      parameters: [idParameter("query")],
      responses: {
        200: reply("It is cancelled, now or before", "Cancelled", {
          ...processing,
          status: "failed",
          error: "cancelled",
          credits_returned: 10,
        }),
        ...notFound,
        ...refusal(409, "already_ended", "not cancelled: it has completed"),
        ...toAccount,
      },
    },
  },
  ...videoPaths,
  "/accounts": {
    get: {
      ...owner,
      operationId: "accounts",
      summary: "Lists the accounts",
      responses: { 200: reply("Each account, by name", "Accounts"), ...toOwner },
    },
    post: {
      ...owner,
      operationId: "addAccount",
      summary: "Creates an account, or another key for an existing one",
      requestBody: requestBody("NewAccount", { name: "ci", credits: 50 }),
      responses: {
        200: reply("The account with its key", "Account"),
        ...refusal(400, "invalid_account", "credits must be a whole number"),
        ...refusal(409, "account_exists", "the account ci exists, with 50 credits; nothing was changed"),
        ...toOwner,
      },
    },
  },
  "/accounts/credits": {
    post: {
      ...owner,
      operationId: "addCredits",
      summary: "Adds credits to an account, or takes some away",
      parameters: [
        {
          name: "Idempotency-Key",
          in: "header",
          required: true,
          description: "With the same key again, nothing is changed.",
          schema: idempotencyKey,
        },
      ],
      requestBody: requestBody("Credits", { account: "ci", amount: 500 }),
      responses: {
        200: reply("The balance", "Credited", { account: "ci", amount: 500, credits: 550, replayed: false }),
        ...refusal(400, "invalid_amount", "amount must be a whole number, negative to take credits away"),
        ...noAccount,
        ...refusal(409, "credits_out_of_range", "ci has 50 credits; nothing was changed"),
        ...toOwner,
      },
    },
  },
  "/accounts/limits": {
    post: {
      ...owner,
      operationId: "setLimits",
      summary: "Limits what an account may start; null is no limit",
      requestBody: requestBody("Limits", { account: "ci", max_running: 4, max_per_hour: null }),
      responses: {
        200: reply("Its limits", "Limited", { account: "ci", max_running: 4, max_per_hour: null }),
        ...refusal(400, "invalid_limit", "max_running must be a whole number from 1 to 1000000, or null"),
        ...noAccount,
        ...toOwner,
      },
    },
  },
  "/accounts/rotate": {
    post: {
      ...owner,
      operationId: "rotate",
      summary: "Replaces all keys of an account with a new one",
      requestBody: requestBody("Rotate", { account: "ci" }),
      responses: {
        200: reply("The account with its key", "Rotated"),
        ...refusal(400, "invalid_account", "account must be the name of an account"),
        ...noAccount,
        ...refusal(409, "own_key", "the local account's key cannot be changed here: use vidgen serve --rotate"),
        ...toOwner,
      },
    },
  },
  "/accounts/revoke": {
    post: {
      ...owner,
      operationId: "revoke",
      summary: "Revokes a key, or all keys of an account",
      requestBody: requestBody("Revoke", { revoke: "ci" }),
      responses: {
        200: reply("How many keys were revoked", "Revoked", { revoked: 1 }),
        ...refusal(400, "invalid_revoke", "revoke must be a key or an account"),
        ...refusal(409, "own_key", "the local account's key cannot be changed here: use vidgen serve --rotate"),
        ...toOwner,
      },
    },
  },
  "/backup": {
    post: {
      ...owner,
      operationId: "backup",
      summary: "Returns a copy of the embedded database",
      responses: {
        200: {
          description: "A consistent copy of the database",
          content: { "application/vnd.sqlite3": { schema: { type: "string", format: "binary" } } },
        },
        ...toOwner,
      },
    },
  },
  "/engines": {
    get: {
      ...owner,
      operationId: "engines",
      summary: "Checks the engines",
      responses: { 200: reply("Each engine", "Engines"), ...toOwner },
    },
  },
  "/metrics": {
    get: {
      ...owner,
      operationId: "metrics",
      summary: "Returns the metrics for Prometheus",
      responses: {
        200: {
          description: "The text format of Prometheus",
          content: { "text/plain": { schema: { type: "string" } } },
        },
        ...toOwner,
      },
    },
  },
  "/healthz": {
    get: {
      ...open,
      operationId: "alive",
      summary: "Whether the process responds",
      responses: { 200: reply("It responds", "Alive", { status: "ok" }), ...toAnybody },
    },
  },
  "/readyz": {
    get: {
      ...open,
      operationId: "ready",
      summary: "Whether the service can do its work",
      responses: {
        200: reply("It can", "Readiness", { status: "ok", database: "ok", media: "ok", engines: "ok" }),
        503: { ...reply("It cannot", "Readiness"), headers: retryAfter },
        ...toAnybody,
      },
    },
  },
  "/openapi.json": {
    get: {
      ...open,
      operationId: "describe",
      summary: "Returns this description",
      responses: {
        200: { description: "OpenAPI 3.1", content: { "application/json": { schema: { type: "object" } } } },
        ...toAnybody,
      },
    },
  },
};

const signedHeaders: Record<keyof SignedHeaders, string> = {
  "webhook-id": "The same at each attempt.",
  "webhook-timestamp": "When this attempt was made, in Unix seconds.",
  "webhook-signature": "`v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`.",
};

export const webhooks = {
  ended: {
    post: {
      ...generations,
      operationId: "ended",
      summary: "A generation has completed or failed",
      description:
        "Sent to the callback_url of the start, at least once: immediately, then again for over an hour until it is received. Signed as in Standard Webhooks.",
      security: [],
      parameters: Object.entries(signedHeaders).map(([name, description]) => ({
        name,
        in: "header",
        required: true,
        description,
        schema: { type: "string" },
      })),
      requestBody: requestBody("Ended", { ...completed, completed_at: "2026-01-01T00:01:30.000Z" }),
      responses: {
        "2XX": { description: "Received, within 15 seconds." },
        410: { description: "Rejected: no further attempt is made." },
        default: { description: "The callback is sent again." },
      },
    },
  },
};
