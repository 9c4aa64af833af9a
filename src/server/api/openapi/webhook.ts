import * as z from "zod";
import type { SignedHeaders } from "../../callbacks/signature.ts";
import { completedExample, generationSchema } from "../status.ts";
import { named, parameters, requestBody, time } from "./operation.ts";

const ended = named("Ended", { ...generationSchema.shape, completed_at: time });

const signedHeaders = {
  "webhook-id": z.string().meta({ description: "The same at each attempt." }),
  "webhook-timestamp": z.string().meta({ description: "When this attempt was made, in Unix seconds." }),
  "webhook-signature": z.string().meta({
    description: "`v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`.",
  }),
} satisfies Record<keyof SignedHeaders, z.ZodString>;

/** The interface's callback with the result of a generation. */
export const endedWebhook = {
  tags: ["generations"],
  operationId: "ended",
  summary: "A generation has completed or failed",
  description:
    "Sent to the callback_url of the start, at least once: immediately, then again for over an hour until it is received. Signed as in Standard Webhooks.",
  security: [],
  parameters: parameters("header", signedHeaders),
  requestBody: requestBody(ended, { ...completedExample, completed_at: "2026-01-01T00:01:30.000Z" }),
  responses: {
    "2XX": { description: "Received, within 15 seconds." },
    410: { description: "Rejected: no further attempt is made." },
    default: { description: "The callback is sent again." },
  },
};
