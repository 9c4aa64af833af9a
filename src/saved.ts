import * as z from "zod";

/** What the saved file holds; what others have put there is kept. */
export const savedSchema = z.looseObject({
  base_url: z.string().optional(),
  model: z.string().optional(),
  keys: z.record(z.string(), z.string()).optional(),
});
