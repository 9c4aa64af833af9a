import * as z from "zod";
import { findModel, models } from "../client/models.ts";
import type { RenderRequest } from "./engines/engine.ts";
import { refuse } from "./http/refusal.ts";

/** The longest video the local service makes, in seconds. */
export const longestDuration = 60;

const notSeconds = "must be a number of seconds";
const httpUrl = z.string().refine(isHttpUrl, "must be an http(s) address");
const imageUrl = z
  .string()
  .refine((value) => isHttpUrl(value) || value.startsWith("data:image/"), "must be an http(s) or data: address");

/** The body of the start request (interface 4.1). What the interface leaves open has the local service's own bounds and defaults. */
const bodySchema = z.object({
  prompt: z.string().refine((value) => value.trim() !== "", "must not be empty"),
  model: z
    .string()
    .refine((value) => findModel(value) !== undefined, `must be one of ${models.map(({ id }) => id).join(", ")}`),
  aspectRatio: z
    .string()
    .regex(/^\d{1,4}(\.\d{1,4})?:\d{1,4}(\.\d{1,4})?$/, 'must be a ratio such as "16:9"')
    .refine(isSaneRatio, "must be between 1:4 and 4:1")
    .default("16:9"),
  duration: z
    .union([z.number(), z.string().regex(/^\d+(\.\d+)?$/, notSeconds)], { error: notSeconds })
    .transform(Number)
    .refine(
      (seconds) => seconds > 0 && seconds <= longestDuration,
      `must be more than 0 and at most ${longestDuration} seconds`,
    )
    .default(5),
  resolution: z.enum(["480p", "720p", "1080p"], { error: "must be 480p, 720p or 1080p" }).default("480p"),
  imageUrl: imageUrl.optional(),
  imageUrls: z.array(imageUrl).optional(),
  callback_url: httpUrl.nullish(),
});

export type StartBody = { render: RenderRequest; callback_url: string | null };

/** Reads the body of a start request; throws a 400 that says what is wrong with which field. */
export function readStartBody(json: unknown): StartBody {
  const parsed = bodySchema.safeParse(json, { error: (issue) => typeMessage(issue) });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue?.path.join(".");
    throw refuse(
      400,
      `invalid_${issue?.path[0]?.toString() ?? "body"}`,
      field ? `${field} ${issue?.message}` : `the body ${issue?.message}`,
    );
  }
  const { callback_url, imageUrl: image, imageUrls = [], ...rest } = parsed.data;
  const images = image === undefined ? imageUrls : [image, ...imageUrls];
  checkImages(rest.model, images);
  return { render: { ...rest, images }, callback_url: callback_url ?? null };
}

function typeMessage(issue: { code?: string | undefined; input?: unknown; expected?: unknown }): string | undefined {
  if (issue.code !== "invalid_type") return undefined;
  if (issue.input === undefined) return "is missing";
  return `must be ${/^[ao]/.test(String(issue.expected)) ? "an" : "a"} ${issue.expected}`;
}

/** Interface section 8: `kling-1.6-elements` wants 2 to 4 images. Of the others it says nothing; they take none to as many as that. */
function checkImages(model: string, images: string[]): void {
  const wanted = findModel(model)?.images ?? { min: 0, max: 4 };
  if (images.length >= wanted.min && images.length <= wanted.max) return;
  throw refuse(
    400,
    "invalid_imageUrls",
    `${model} wants ${wanted.min} to ${wanted.max} images in imageUrls, not ${images.length}`,
  );
}

function isHttpUrl(value: string): boolean {
  return URL.canParse(value) && /^https?:$/.test(new URL(value).protocol);
}

function isSaneRatio(value: string): boolean {
  const [width = 0, height = 0] = value.split(":").map(Number);
  return width > 0 && height > 0 && width / height <= 4 && height / width <= 4;
}
