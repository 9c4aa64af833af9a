import type { StoredGeneration } from "../store/store.ts";

/** The request of a generation, as JSON and as the command lines that make it again. */
export type Again = { json: string; vidgen: string; curl: string; hasData: boolean };

/**
 * Returns how a generation is made again, by POSIX shells. A `data:` image may have megabytes: a file name takes its place in the `vidgen` line, and
 * the beginning of its address in the others; `hasData` tells so.
 */
export function makeAgain({ request, callback_url }: StoredGeneration, baseUrl: string): Again {
  const { prompt, model, aspectRatio, duration, resolution, images, extras } = request;
  const shown = images.map((image) => (isData(image) ? `${image.slice(0, 40)}...` : image));
  const [imageUrl] = shown;
  const body = {
    ...{ prompt, model, aspectRatio, duration, resolution },
    ...(shown.length === 1 ? { imageUrl } : {}),
    ...(shown.length > 1 ? { imageUrls: shown } : {}),
    ...extras,
    ...(callback_url === null ? {} : { callback_url }),
  };
  const flags = [
    ...["-m", model, "-a", aspectRatio, "-d", String(duration), "-r", resolution],
    ...images.flatMap((image, index) => ["-i", isData(image) ? `image-${index + 1}.png` : image]),
    ...Object.entries(extras).flatMap(([name, value]) => ["--set", `${name}=${settingText(value)}`]),
    ...(callback_url === null ? [] : ["--callback-url", callback_url]),
    "--local",
  ];
  const headers = `-H "Authorization: Bearer $VIDGEN_API_KEY" -H "Content-Type: application/json"`;
  return {
    json: JSON.stringify(body, null, 2),
    vidgen: vidgenLine(prompt, flags),
    curl: `curl ${quote(`${baseUrl}/api/generate`)} ${headers} -d ${quote(JSON.stringify(body))}`,
    hasData: images.some(isData),
  };
}

/** As an argument of vidgen, `-` means stdin, and `@` a file. */
function vidgenLine(prompt: string, flags: string[]): string {
  const words = flags.map(quote).join(" ");
  if (prompt === "-" || prompt.startsWith("@")) return `printf %s ${quote(prompt)} | npx vidgen generate - ${words}`;
  if (prompt.startsWith("-")) return `npx vidgen generate ${words} -- ${quote(prompt)}`;
  return `npx vidgen generate ${quote(prompt)} ${words}`;
}

/** `--set` reads JSON where it can, so a text that looks like JSON is written as a JSON text. */
function settingText(value: string | number): string {
  if (typeof value === "number") return String(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** Returns a word of a POSIX shell's command line. */
export function quote(word: string): string {
  return /^[\w./:,%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function isData(image: string): boolean {
  return image.startsWith("data:");
}
