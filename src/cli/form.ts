import { aspectRatios, defaultModel, findModel, type Model, models } from "../client/models.ts";
import type { Io } from "../io.ts";
import type { Context } from "./command.ts";
import { buildRequest, checkImage, type Wish } from "./commands/request.ts";
import { programName, quote, resolveService } from "./context.ts";
import { askChoice, askText, askYes, type Check, type Choice, checkedBy } from "./terminal/prompts.ts";
import { checkPlace } from "./terminal/result.ts";

/** What is known before anything is asked; `usualModel` is the one to offer first. */
type Blank = Omit<Wish, "prompt" | "model"> & { model: string | undefined; usualModel: string };

export type FormOptions = {
  local?: boolean;
  dryRun?: boolean;
  open?: boolean;
  baseUrl?: string;
  isPlaceAsked: boolean;
  /** The flags of the command line with these values in the place of those that were typed. */
  flags(values: object): string[];
};

/**
 * Asks for what the command line leaves open, shows what it comes to, and wants a yes. Throws `interrupted` at Esc and Ctrl-C, and without
 * the yes: nothing was sent. What could come to nothing is said before anything is asked.
 */
export async function askForWish(blank: Blank, options: FormOptions, { io, output }: Context) {
  const { local, dryRun, open = false } = options;
  // The images are still to come: without any, a model that needs some would be refused here.
  const set = ["imageUrl=", ...blank.set];
  buildRequest({ ...blank, prompt: "still to come", model: blank.model ?? defaultModel, set });
  if (!local && !dryRun) await resolveService(options, io);

  const wish = await fillForm(blank, io);
  buildRequest(wish);
  const usual = local ? "the current folder" : "print its URL only";
  const check = (place: string) => checkPlace(place, { output, open }, io);
  const place = options.isPlaceAsked ? await askPlace(usual, check, io) : undefined;
  const { prompt, images: image, ...values } = wish;
  const flags = options.flags({ ...values, image, ...(place === undefined ? {} : { output: place }) });
  const command = commandLine(prompt, [...flags, ...(output.json ? ["--json"] : [])], io.env);
  output.note(`\n${summarize(wish)}\n\nThe same as:\n  ${command}\n`);
  if (!dryRun) await askYes(local ? "Start it?" : "Start it? It costs credits.", io);
  return { wish, place };
}

/** Asks for what is missing of a wish. */
async function fillForm({ usualModel, ...blank }: Blank, io: Io): Promise<Wish> {
  const prompt = (await askText("What should the video show?", isAnswered, io)).trim();
  const model = blank.model ?? (await askChoice("Which model?", modelChoices(usualModel), usualModel, io));
  const ask = () => askChoice("Which aspect ratio?", ratioChoices, "", io);
  const aspectRatio = blank.aspectRatio ?? ((await ask()) || undefined);
  const duration = blank.duration ?? (await askDuration(io));
  const images = await askImages(model, blank.images, io);
  return { ...blank, prompt, model, aspectRatio, duration, images };
}

/** Where the video is to go, as `-o` takes it; `undefined` for the usual place. `check` throws for a place that no video can go to. */
async function askPlace(usual: string, check: (place: string) => void, io: Io): Promise<string | undefined> {
  // No shell expands what is typed here.
  const read = (text: string) => text.trim().replace(/^~(?=\/)/, () => io.home || "~");
  const wrong = "A file such as fox.mp4, a folder/, or . for this one, please.";
  const isPlace = checkedBy(check, wrong);
  const validate: Check = (text) => {
    const place = read(text);
    if (place === "") return true;
    return place.startsWith("~") ? wrong : isPlace(place);
  };
  return read(await askText(`Where to save it? (Enter: ${usual})`, validate, io)) || undefined;
}

/** What a wish comes to, for a person to look over. */
function summarize({ prompt, model, aspectRatio, duration, resolution, images }: Wish): string {
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
export function commandLine(prompt: string, flags: readonly string[], env: Io["env"]): string {
  const command = `${programName(env)} generate`;
  const join = (words: readonly string[]) => words.map(quote).join(" ");
  // As an argument these would name stdin or a file.
  if (prompt === "-" || prompt.startsWith("@")) return `printf %s ${quote(prompt)} | ${command} - ${join(flags)}`;
  return `${command} ${join(prompt.startsWith("-") ? [...flags, "--", prompt] : [prompt, ...flags])}`;
}

const asTheServiceHasIt = "as the service has it";

const ratioChoices: Choice[] = [
  { value: "", name: asTheServiceHasIt },
  ...aspectRatios.map((ratio) => ({ value: ratio, name: ratio })),
];

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
    const check = checkedBy((text) => {
      if (!isEnough || text.trim() !== "") checkImage(text.trim());
    }, "An http(s) address, please.");
    const hint = isEnough ? `Enter: no more, ${max} at the most` : `${min} to ${max}`;
    const answer = (await askText(`Address of image ${images.length + 1}? (${hint})`, check, io)).trim();
    if (answer === "") break;
    images.push(answer);
  }
  return images;
}
