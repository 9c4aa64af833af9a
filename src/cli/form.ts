import { aspectRatios, findModel, type Model, models } from "../client/models.ts";
import { checkImage, type Wish } from "../client/request.ts";
import type { Io } from "../io.ts";
import type { GenerateOptions } from "./commands/generate.ts";
import { programName, quote } from "./context.ts";
import { askChoice, askText, type Check, type Choice } from "./terminal/prompts.ts";

/** What is known before anything is asked; `usualModel` is the one to offer first. */
export type Blank = Omit<Wish, "prompt" | "model"> & { model: string | undefined; usualModel: string };

/** Asks for what is missing of a wish. Throws `interrupted` at Esc and Ctrl-C. */
export async function fillForm({ usualModel, ...blank }: Blank, io: Io): Promise<Wish> {
  const prompt = (await askText("What should the video show?", isAnswered, io)).trim();
  const model = blank.model ?? (await askChoice("Which model?", modelChoices(usualModel), usualModel, io));
  const aspectRatio = blank.aspectRatio ?? (await askRatio(io));
  const duration = blank.duration ?? (await askDuration(io));
  const images = await askImages(model, blank.images, io);
  return { ...blank, prompt, model, aspectRatio, duration, images };
}

export type PlaceQuestion = {
  /** What becomes of the video without an answer. */
  usual: string;
  /** Throws for a place that no video can go to. */
  check(place: string): void;
};

/** Where the video is to go, as `-o` takes it; `undefined` for the usual place. Throws `interrupted` at Esc and Ctrl-C. */
export async function askPlace({ usual, check }: PlaceQuestion, io: Io): Promise<string | undefined> {
  // No shell reads what is typed here.
  const read = (text: string) => text.trim().replace(/^~(?=\/)/, () => io.home || "~");
  const isPlace = (place: string) => !place.startsWith("~") && passes(check, place);
  const validate: Check = (text) =>
    text.trim() === "" || isPlace(read(text)) || "A file such as fox.mp4, a folder/, or . for this one, please.";
  return read(await askText(`Where to save it? (Enter: ${usual})`, validate, io)) || undefined;
}

/** What a wish comes to, for a person to look over. */
export function summarize({ prompt, model, aspectRatio, duration, resolution, images }: Wish): string {
  const characteristic = findModel(model)?.characteristic;
  const rows = [
    ["Prompt", prompt],
    ["Model", characteristic === undefined ? model : `${model} (${characteristic})`],
    ["Ratio", aspectRatio ?? asTheServiceHasIt],
    ["Length", duration ?? asTheServiceHasIt],
    ["Resolution", resolution],
    ...images.map((image) => ["Image", image.length > 200 ? `${image.slice(0, 200)}…` : image]),
  ];
  return rows.flatMap(([name = "", value]) => (value === undefined ? [] : `  ${name.padEnd(12)}${value}`)).join("\n");
}

/** The command line that says the same without asking. There is no key in it, as a key is never on a command line. */
export function commandOf(wish: Wish, options: GenerateOptions, env: Io["env"]): string {
  const { prompt } = wish;
  const command = `${programName(env)} generate`;
  const flags = flagWords(wish, options);
  const say = (words: string[]) => words.map(quote).join(" ");
  // As an argument these would name stdin or a file.
  if (prompt === "-" || prompt.startsWith("@")) return `printf %s ${quote(prompt)} | ${command} - ${say(flags)}`;
  return `${command} ${say(prompt.startsWith("-") ? [...flags, "--", prompt] : [prompt, ...flags])}`;
}

function flagWords(wish: Wish, options: GenerateOptions): string[] {
  const { timeout } = options;
  const values = {
    ...{ "--model": wish.model, "--aspect-ratio": wish.aspectRatio, "--duration": wish.duration },
    ...{ "--resolution": wish.resolution, "--callback-url": wish.callbackUrl, "--base-url": options.baseUrl },
    "-o": options.save ?? (options.download ? "." : undefined),
    ...{ "--timeout": timeout === "15m" ? undefined : timeout, "--interval": options.interval },
  };
  const switches = {
    ...{ "--local": options.local, "--overwrite": options.overwrite, "--no-wait": !options.wait },
    ...{ "--reuse": options.reuse, "--dry-run": options.dryRun, "--json": options.output.json },
    ...{ "--open": options.open, "--bell": options.bell },
  };
  return [
    ...Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
    ...wish.images.flatMap((image) => ["--image", image]),
    ...wish.set.flatMap((setting) => ["--set", setting]),
    ...Object.entries(switches).flatMap(([name, isOn]) => (isOn ? [name] : [])),
  ];
}

const asTheServiceHasIt = "as the service has it";

const ratioChoices: Choice[] = [
  { value: "", name: asTheServiceHasIt },
  ...aspectRatios.map((ratio) => ({ value: ratio, name: ratio })),
];

async function askRatio(io: Io): Promise<string | undefined> {
  return (await askChoice("Which aspect ratio?", ratioChoices, "", io)) || undefined;
}

/** All that are known, and the usual one though it may not be. */
function modelChoices(usual: string): Choice[] {
  const known = models.map(({ id, characteristic }: Model) => ({ value: id, name: `${id}: ${characteristic}` }));
  return findModel(usual) ? known : [{ value: usual, name: usual }, ...known];
}

const isAnswered: Check = (text) => text.trim() !== "" || "A few words, please.";

async function askDuration(io: Io): Promise<string | undefined> {
  const isSeconds = (text: string) => /^\d+(\.\d+)?$/.test(text) && Number(text) > 0;
  const check: Check = (text) =>
    text.trim() === "" || isSeconds(text.trim()) || "A number of seconds above 0, such as 5, please.";
  const answer = await askText(`How long, in seconds? (Enter: ${asTheServiceHasIt})`, check, io);
  return answer.trim() || undefined;
}

/** Images for a model that wants some: as many as are missing, then more until there is no room or no answer. */
async function askImages(model: string, given: string[], io: Io): Promise<string[]> {
  const images = [...given];
  const { min, max } = findModel(model)?.images ?? { min: 0, max: 0 };
  while (images.length < max) {
    const isEnough = images.length >= min;
    const check: Check = (text) =>
      (isEnough && text.trim() === "") || passes(checkImage, text.trim()) || "An http(s) address, please.";
    const hint = isEnough ? `Enter: no more, ${max} at the most` : `${min} to ${max}`;
    const answer = (await askText(`Address of image ${images.length + 1}? (${hint})`, check, io)).trim();
    if (answer === "") break;
    images.push(answer);
  }
  return images;
}

function passes(check: (text: string) => unknown, text: string): boolean {
  try {
    check(text);
    return true;
  } catch {
    return false;
  }
}
