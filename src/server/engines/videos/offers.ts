import * as z from "zod";
import type { Io } from "../../../io.ts";
import { shorterSideOf } from "../../../protocol/models.ts";
import { oneOf } from "../../../protocol/text.ts";
import type { Images, RenderRequest } from "../../store/generations.ts";
import type { Passes } from "../engine.ts";
import { describeReply, optional, readReply } from "../upstream/reply.ts";
import type { Kind } from "./kinds.ts";

/** A model in its server's list, which is free of charge. What the list does not contain is `undefined`. */
export type Offer = {
  /** The server's name for the model. */
  id: string;
  name: string | undefined;
  /** Prices in USD, by the provider's own names for them. */
  prices: Readonly<Record<string, string>> | undefined;
  /** Lengths in seconds. */
  durations: readonly number[] | undefined;
  resolutions: readonly string[] | undefined;
  /** In pixels, such as "1280x720". */
  sizes: readonly string[] | undefined;
  aspectRatios: readonly string[] | undefined;
  /** Whether a video can start from an image. */
  takesImage: boolean | undefined;
  /** Whether a video can end with an image. */
  takesLastImage: boolean | undefined;
  /** The fields of the model's provider that the list allows. */
  passedNames: readonly string[] | undefined;
};

const price = z.union([z.string(), z.number()]).transform(String);

const modelSchema = z.object({
  id: z.string(),
  name: optional(z.string()),
  pricing_skus: optional(z.record(z.string(), price)),
  supported_durations: optional(z.array(z.number())),
  supported_resolutions: optional(z.array(z.string())),
  supported_sizes: optional(z.array(z.string())),
  supported_aspect_ratios: optional(z.array(z.string())),
  supported_frame_images: optional(z.array(z.string())),
  allowed_passthrough_parameters: optional(z.array(z.string())),
});

const listSchema = z.object({ data: z.array(modelSchema.optional().catch(undefined)) });

/** A list of all models may be long. */
const maxListBytes = 16_000_000;
const limitMs = 10_000;

/**
 * Resolves with the models of a server: a provider's public list, which is requested without the key, or the `/v1/models` of the owner's own server.
 * Rejects when no list arrives within 10 seconds.
 */
export async function fetchOffers(
  { url, kind, headers }: { url: string; kind: Kind | undefined; headers: Readonly<Record<string, string>> },
  { fetch, limit }: Pick<Io, "fetch" | "limit">,
  signal: AbortSignal,
): Promise<Offer[]> {
  const timeout = limit(limitMs, signal, new Error(`no response within ${limitMs / 1_000} s`));
  const listPath = kind?.provider?.listPath;
  try {
    const init = { headers: listPath ? {} : headers, signal: timeout.signal };
    const reply = await readReply(await fetch(`${url}${listPath ?? "/v1/models"}`, init), { maxBytes: maxListBytes });
    const { data } = listSchema.safeParse(reply.json).data ?? {};
    if (reply.status !== 200 || !data) throw new Error(describeReply(reply));
    return data.filter((model) => model !== undefined).map(readOffer);
  } finally {
    timeout.clear();
  }
}

function readOffer({ id, name, pricing_skus: prices, supported_durations: durations, ...model }: ListedModel): Offer {
  return {
    id,
    name,
    prices,
    durations,
    resolutions: model.supported_resolutions,
    sizes: model.supported_sizes,
    aspectRatios: model.supported_aspect_ratios,
    takesImage: model.supported_frame_images?.includes("first_frame"),
    takesLastImage: model.supported_frame_images?.includes("last_frame"),
    passedNames: model.allowed_passthrough_parameters,
  };
}

type ListedModel = z.infer<typeof modelSchema>;

/** Returns what a model does not accept in a request; `undefined` when the list has no objection. */
export function findFault(
  { id, durations, resolutions, sizes, aspectRatios, takesImage, takesLastImage }: Offer,
  { unset = [], ...request }: RenderRequest & Images<unknown>,
): string | undefined {
  if (request.images.length > 0 && takesImage === false) return `${id} takes no image`;
  if (request.lastImage !== undefined && takesLastImage === false) return `${id} takes no last image`;
  const { size } = request.extras;
  const checks: { field: string; value: unknown; all: readonly unknown[] | undefined; unit?: string }[] = [
    { field: "duration", value: Math.max(1, Math.ceil(request.duration)), all: durations, unit: " s" },
    ...(size !== undefined
      ? [{ field: "size", value: size, all: sizes }]
      : [
          { field: "resolution", value: request.resolution, all: resolutions },
          { field: "aspectRatio", value: request.aspectRatio, all: aspectRatios },
        ]),
  ];
  for (const { field, value, all, unit = "" } of checks) {
    const isAccepted =
      (unset as readonly string[]).includes(field) ||
      !all ||
      all.length === 0 ||
      all.includes(value) ||
      (field === "resolution" && listedResolution(request.resolution, resolutions) !== undefined);
    if (!isAccepted) return `${id} takes ${field} ${oneOf(all ?? [])}${unit}, not ${value}${unit}`;
  }
  return undefined;
}

/** Returns the list's own name for a resolution, such as "4K" for "2160p"; `undefined` if the list does not have it. */
export function listedResolution(resolution: string, listed: readonly string[] = []): string | undefined {
  const pixels = shorterSideOf(resolution);
  return (
    listed.find((name) => name.toLowerCase() === resolution.toLowerCase()) ??
    listed.find((name) => pixels !== undefined && shorterSideOf(name) === pixels)
  );
}

/**
 * Returns what a model takes of fields that vidgen does not know. OpenRouter reads the fields of a model's provider in `provider.options`, by the
 * name of the provider, and ignores them beside `prompt`.
 */
export function passesOf({ id, passedNames: names = [] }: Offer): Passes {
  return {
    names: names.flatMap((name) => [`provider/${name}`, `provider/parameters/${name}`]),
    title: `OpenRouter's list for ${id} has`,
    hint: '; they are sent as provider={"options": {"<provider>": {"<field>": <value>}}}',
  };
}
