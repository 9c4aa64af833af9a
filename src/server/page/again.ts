import { type Field, fields, flagOf, wireValue } from "../../protocol/fields.ts";
import { isDataUrl } from "../../protocol/url.ts";
import { commandLine, pipeLine, quote, type Shell, unsafe } from "../../shell.ts";
import {
  type ExtraValue,
  type Images,
  listImages,
  replaceImages,
  type StoredGeneration,
} from "../store/generations.ts";

/** The request of a generation as JSON, and as commands and code that repeat it; `hasData` if it has `data:` images. */
export type Repeats = {
  json: string;
  vidgen: string;
  powershell: string;
  curl: string;
  library: string;
  hasData: boolean;
};

/** The base URL of the service, whether `--local` means this service, and the name of the program. */
export type ServiceAddress = { baseUrl: string; isLocal: boolean; program: string };

/**
 * Returns how to repeat a generation, for POSIX shells and for PowerShell 7.3 or later. A `data:` image can have megabytes, so it is not written out:
 * commands of vidgen get a file name instead, and the others the beginning of the URL.
 */
export function makeAgain({ request, callback_url }: StoredGeneration, address: ServiceAddress): Repeats {
  const { baseUrl, isLocal, program } = address;
  const { prompt, images, extras } = request;
  const all = listImages(request);
  const shown = replaceImages(
    request,
    all.map((image) => (isDataUrl(image) ? `${image.slice(0, 40)}...` : image)),
  );
  const files = replaceImages(request, all.map(imageName));
  const body = requestBody({ request, callback_url }, shown);
  const flags: string[] = [];
  for (const field of fields) {
    const flag = flagOf(field, "short");
    const typed = imagesOf(field, files);
    // The flag of a local field needs the local service; `--set` sends the field to any service.
    if (field.isLocalOnly && !isLocal && typed?.length)
      flags.push("--set", `${field.name}=${settingText(body[field.name] as ExtraValue)}`);
    else if (typed) flags.push(...typed.flatMap((image) => [flag, image]));
    else if (flag !== "" && field.name in body) flags.push(flag, String(body[field.name]));
  }
  const known = new Set<string>(fields.map(({ name }) => name));
  for (const [name, value] of Object.entries(extras)) {
    if (!known.has(name)) flags.push("--set", `${name}=${settingText(value)}`);
  }
  flags.push(...(isLocal ? ["--local"] : ["--base-url", baseUrl]));
  const headers = `-H "Authorization: Bearer $VIDGEN_API_KEY" -H "Content-Type: application/json"`;
  return {
    json: jsonText(body, 2),
    vidgen: vidgenLine(prompt, { program, flags }, "posix"),
    powershell: vidgenLine(prompt, { program, flags }, "powershell"),
    curl: `curl ${quote(`${baseUrl}/api/generate`, "posix")} ${headers} -d ${quote(jsonText(body), "posix")}`,
    library: libraryCode({ ...body, ...extras }, { baseUrl, images, extras }),
    hasData: all.some(isDataUrl),
  };
}

/** Returns the body that repeats a request with these images. */
export function requestBody(
  { request, callback_url }: Pick<StoredGeneration, "request" | "callback_url">,
  images: Images<string>,
): Record<string, unknown> {
  const values: Record<string, unknown> = { ...request, ...request.extras, callback_url: callback_url ?? undefined };
  const body: Record<string, unknown> = {};
  for (const field of fields) {
    const value = values[field.name];
    const sources = imagesOf(field, images);
    if (field.name === "imageUrl")
      Object.assign(body, images.images.length > 1 ? { imageUrls: images.images } : { imageUrl: images.images[0] });
    else if (sources?.length) body[field.name] = field.takes === "image" ? sources[0] : sources;
    else if (value !== undefined && wireValue(field, String(value)) === value) body[field.name] = value;
  }
  return { ...body, ...request.extras };
}

/** The images of a field; `undefined` if the field takes no images. */
function imagesOf({ name }: Field, { images, lastImage, references = [] }: Images<string>): string[] | undefined {
  if (name === "imageUrl") return images;
  if (name === "lastImageUrl") return lastImage === undefined ? [] : [lastImage];
  return name === "referenceUrls" ? references : undefined;
}

type LineParts = { program: string; flags: string[] };

/** The prompt is piped in if vidgen would read it as `-` (stdin) or `@file`. */
function vidgenLine(prompt: string, { program, flags }: LineParts, shell: Shell): string {
  const words = commandLine(flags, shell);
  if (prompt === "-" || prompt.startsWith("@")) return pipeLine(prompt, `${program} generate - ${words}`, shell);
  if (prompt.startsWith("-")) return `${program} generate ${words} -- ${quote(prompt, shell)}`;
  return `${program} generate ${quote(prompt, shell)} ${words}`;
}

type LibraryParts = Pick<StoredGeneration["request"], "images" | "extras"> & { baseUrl: string };

/** The library has other names for some fields. It also takes images as files, and unknown fields as `extra`. */
function libraryCode(body: Record<string, unknown>, { baseUrl, images, extras }: LibraryParts): string {
  const { imageUrl, imageUrls, lastImageUrl, referenceUrls, callback_url: callbackUrl, ...values } = body;
  const fields = Object.entries(values).filter(([name]) => !Object.hasOwn(extras, name));
  const extra = { lastImageUrl, referenceUrls, ...extras };
  const request = {
    ...Object.fromEntries(fields),
    images: images.length === 0 ? undefined : images.map(imageName),
    callbackUrl,
    extra: Object.values(extra).every((value) => value === undefined) ? undefined : extra,
  };
  const literal = jsonText(request, 2).replace(/^( *)"([A-Za-z_]\w*)":/gm, "$1$2:");
  return [
    'import { createClient } from "vidgen";',
    "",
    `const vidgen = createClient({ baseUrl: ${jsonText(baseUrl)} });`,
    `const { id, file } = await vidgen.generate(${literal}, { output: "./" });`,
  ].join("\n");
}

function imageName(image: string, index: number): string {
  return isDataUrl(image) ? `image-${index + 1}.png` : image;
}

/** `--set` parses JSON, so a string that looks like JSON is written as a JSON string. */
function settingText(value: ExtraValue): string {
  if (typeof value !== "string") return JSON.stringify(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** JSON in which control and bidirectional characters are escaped too. */
function jsonText(body: object | string, indent?: number): string {
  return JSON.stringify(body, null, indent).replace(
    unsafe,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
