import * as z from "zod";
import { knownAmount, openEstimates } from "../client/generation/cost.ts";
import { statuses } from "../client/ledger/attempt.ts";
import { listAttempts } from "../client/ledger/attempts.ts";
import type { Entry } from "../client/ledger/history.ts";
import { repeatRequest } from "../client/ledger/repeat.ts";
import { localBaseUrl } from "../client/ledger/same-service.ts";
import { findNewest, findStarted, readRecent } from "../client/ledger/search.ts";
import { doubtError, findFileError } from "../client/request/doubtful-prompt.ts";
import { readAllImages } from "../client/request/images.ts";
import { findMentions, findMisspelt } from "../client/request/references.ts";
import { formatAge } from "../connect/format.ts";
import { type FrameSource, findLastFrame } from "../connect/frames.ts";
import { describeEarlierPrice, listEarlierPrices } from "../connect/prices.ts";
import { findProject } from "../connect/project.ts";
import { findBaseUrl, findModelSetting } from "../connect/settings.ts";
import { asVidgenError, usage, VidgenError } from "../errors.ts";
import type { Io } from "../io.ts";
import {
  type Field,
  type FieldTexts,
  fields,
  findImageFault,
  findWarnings,
  type Images,
  imageFields,
  isImageField,
} from "../protocol/fields.ts";
import { aspectRatios, defaultModel, maxLocalSeconds, models } from "../protocol/models.ts";
import { type FieldFault, type FieldInput, findFaults, readSetFields, toRequest } from "../protocol/request.ts";
import { shorten } from "../protocol/text.ts";
import { changeTools } from "./changes.ts";
import type { ToolStartOptions } from "./starts.ts";
import { chargedField, defineTool, idField, type Tool, type ToolOptions } from "./tool.ts";
import { followTools, maxWaitSeconds } from "./videos.ts";

const creditsField = z.number().nullable();
const noteField = z.string().describe("What to do next.");

/** The tools of the server, in the order in which an agent needs them. */
export function createTools(options: ToolOptions, io: Io): Tool[] {
  return [
    generateTool(options, io),
    repeatTool(options, io),
    ...followTools(options, io),
    ...changeTools(options, io),
    listTool(options, io),
    modelsTool(options, io),
    creditsTool(options, io),
  ];
}

const startOutput = z.object({
  id: z.string(),
  status: z.string(),
  model: z.string(),
  resumed: z.boolean().describe("Whether an earlier call started it; if so, nothing was charged now."),
  remaining_credits: creditsField.describe("The credits left after its start, if the service states them."),
  charged: chargedField,
  warnings: z.array(z.string()).describe("Probable mistakes in the arguments."),
  note: noteField,
});

const startArguments = {
  from: z
    .string()
    .optional()
    .describe(
      `The id of a generation, or a video file inside the server's folder: the video begins with its last frame. A generation that is still running is waited for, at most ${maxWaitSeconds} s. Not with images.`,
    ),
  again: z
    .boolean()
    .optional()
    .describe("true starts another generation with the same arguments, and pays for it. Needs a request_key."),
  request_key: z
    .string()
    .regex(/^[\w.:~+/=@-]{16,200}$/)
    .optional()
    .describe(
      "Names the video that is wanted, such as a new UUID: 16 to 200 letters, digits or _.:~+/=@-. Keep it for every repetition of the call, which then returns the same generation.",
    ),
  exactPrompt: z
    .boolean()
    .optional()
    .describe("true sends a prompt that is only the name of a file or an address, or that has @ before a reference."),
};

function generateTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "generate_video",
    title: "Start a video",
    description:
      "Starts a video generation, which costs credits, and returns its id at once. It takes 1 to 3 minutes; get_video reports when it is ready. The same arguments within 24 hours return the same generation and cost nothing, so it is safe to repeat a call that timed out. again: true with a new request_key pays for a new generation; with the same request_key it returns that one.",
    input: z.strictObject({ ...fieldArguments(options), ...startArguments }),
    output: startOutput,
    hints: { openWorld: true },
    async run({ again, request_key, from, exactPrompt = false, ...fieldArgs }, { signal }) {
      const starting = readStarting({ again, request_key });
      const { texts, images } = readArguments(fieldArgs);
      const { prompt = "", model = (await findModelSetting(io)) ?? defaultModel } = texts;
      const frame = await findFrame(from, { images, signal }, options, io);
      const input = { texts: { ...texts, prompt, model }, images: await findFiles(images, frame, options), extra: {} };
      const { local: isLocal = false } = options;
      const doubt = exactPrompt ? undefined : await findDoubt(texts, options, io);
      return startVideo(input, { ...starting, isLocal, frame, doubt, cancelled: signal }, options, io);
    },
  });
}

function repeatTool(options: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "repeat_video",
    title: "Start a video again, with changes",
    description:
      "Starts another generation with the request of an earlier one, which costs credits. Arguments given here, such as another aspectRatio or prompt, replace those of the earlier request. Its result, and repeating a call, are as for generate_video.",
    input: z.strictObject({ id: idField, ...z.object(fieldArguments(options)).partial().shape, ...startArguments }),
    output: startOutput,
    hints: { openWorld: true },
    async run({ id, again, request_key, from, exactPrompt = false, ...fieldArgs }, { signal }) {
      const starting = readStarting({ again, request_key });
      const { services, local = false, baseUrl } = options;
      const parent = await findStarted(services.journal, id);
      if (parent === undefined)
        throw new VidgenError(
          "not_found",
          `Generation ${id} was not started on this computer: its request is not known.`,
          {
            hint: "list_videos lists the generations that were started here. Nothing was sent.",
          },
        );
      const { texts, images } = readArguments(fieldArgs);
      const frame = await findFrame(
        from ?? (images.imageUrl?.length ? undefined : parent.from),
        { images, signal },
        options,
        io,
      );
      const files = await findFiles(images, frame, options);
      const { set, ...input } = repeatRequest(parent, { texts, images: files, set: [] });
      // Starts at the service that the flags name, or else at the service of the parent.
      const isLocal = local || (baseUrl === undefined && parent.base_url === localBaseUrl);
      const doubt = exactPrompt ? undefined : await findDoubt(texts, options, io);
      const startOptions = { ...starting, isLocal, parent, frame, doubt, cancelled: signal };
      return startVideo({ ...input, extra: readSetFields(set) }, startOptions, options, io);
    },
  });
}

type StartingArguments = { again?: boolean | undefined; request_key?: string | undefined };

/** Throws `usage` for `again` without a key, because such a call could not be repeated without paying twice. */
function readStarting({ again = false, request_key: requestKey }: StartingArguments) {
  if (again && requestKey === undefined)
    throw usage(
      "again: true needs a request_key. Nothing was sent.",
      "Call the tool again with a request_key, such as a new UUID, and keep it for every repetition of the call.",
    );
  return { again, requestKey };
}

/** The error of a prompt that is probably not what was meant. Only files inside the folder are looked up. */
async function findDoubt(
  { prompt = "" }: FieldTexts,
  { folder }: ToolOptions,
  io: Io,
): Promise<VidgenError | undefined> {
  const error = await findFileError(prompt, async (path) => io.disk.stat(await folder.video(path)));
  if (error || !prompt.includes("@")) return error;
  // A file that cannot be used names no references.
  const { references = new Map() } = (await findProject(io).catch(() => undefined)) ?? {};
  const [known] = findMentions(prompt, references);
  const found = known === undefined ? findMisspelt(prompt, references) : { typed: `@${known}`, guess: `@${known}` };
  if (found === undefined) return undefined;
  const isReference = `is probably the reference ${found.guess} of vidgen.json, which only the command line replaces.`;
  return doubtError(
    `${found.typed} ${isReference}`,
    "Write the name without @, and pass its images where the model takes references.",
  );
}

/** The image that a video starts with, and the generation whose last frame it is. */
type StartFrame = { path: string; id: string | undefined; warnings: string[] };

/** Takes the last frame of a generation, or of a video file inside the folder. */
async function findFrame(
  from: string | undefined,
  { images, signal }: { images: Images; signal: AbortSignal },
  { services, folder }: ToolOptions,
  io: Io,
): Promise<StartFrame | undefined> {
  if (from === undefined) return undefined;
  if (images.imageUrl?.length) throw usage("from and images cannot be combined. Nothing was sent.");
  const entry = await findStarted(services.journal, from);
  const source: FrameSource = entry
    ? { id: from, entry, open: () => services.open(entry.base_url) }
    : { file: await folder.video(from), id: undefined };
  const waiting = { signal, timeoutMs: maxWaitSeconds * 1000 };
  const frame = await findLastFrame(source, waiting, io).catch((error: VidgenError) => {
    if (error.code !== "pending") throw error;
    const hint = "Call get_video until it is completed, then call this again with the same arguments.";
    throw new VidgenError("pending", `Generation ${from} is still running. Nothing was sent.`, { id: from, hint });
  });
  const warning = `The last frame of ${from} has nearly one colour, as after a fade.`;
  return { path: frame.path, id: entry?.id, warnings: frame.isNearlyOneColor ? [warning] : [] };
}

/** Resolves images to real paths; the frame replaces the source images. */
async function findFiles(
  images: Images,
  frame: { path: string } | undefined,
  { folder }: Pick<ToolOptions, "folder">,
): Promise<Images> {
  const files: Record<string, string[]> = frame ? { imageUrl: [frame.path] } : {};
  for (const [name, list] of Object.entries(images)) files[name] ??= await Promise.all((list ?? []).map(folder.image));
  return files;
}

async function startVideo(
  input: FieldInput,
  { isLocal, frame, ...starting }: Omit<ToolStartOptions, "from"> & { isLocal: boolean; frame: StartFrame | undefined },
  { start }: ToolOptions,
  io: Io,
): Promise<z.input<typeof startOutput>> {
  for (const fault of findFaults(input, { isLocal })) throw faultError(fault);
  const warnings = [...(frame?.warnings ?? [])];
  const images = await readValidImages(input.images, (text) => warnings.push(text));
  const request = toRequest({ ...input, images });
  const probableMistakes = findWarnings(request, { isLocal }).map((text) => `${text} Sent as given.`);
  const { session, started_at, ...started } = await start(request, { ...starting, from: frame?.id }).catch((error) => {
    if (probableMistakes.length === 0) throw error;
    throw asVidgenError(error).with({ hint: `${probableMistakes.join(" ")} list_models has the known models.` });
  });
  const age = formatAge({ at: started_at }, io);
  const nextStep =
    started.status === "completed" ? "Call save_video to save it." : "Call get_video to see when it is ready.";
  const note = started.resumed
    ? `The same call started it ${age} ago: nothing was charged now. ${nextStep} again: true, with a new request_key, starts another one and pays for it.`
    : nextStep;
  const checkNote = " Check the warnings: list_models has the known models, and cancel_video may stop this video.";
  return {
    ...started,
    warnings: [...probableMistakes, ...warnings, ...started.warnings],
    note: probableMistakes.length === 0 ? note : note + checkNote,
  };
}

type Argument = string | number | string[] | undefined;

const argumentTypes: Record<Field["takes"], z.ZodType<Argument>> = {
  text: z.string(),
  number: z.union([z.number(), z.string()]),
  image: z.string(),
  images: z.array(z.string()),
};

/** The request's fields as tool arguments. */
function fieldArguments({ local }: Pick<ToolOptions, "local">): Record<string, z.ZodType<Argument>> {
  const offeredFields = fields.filter(({ isLocalOnly }) => local || !isLocalOnly);
  const entries = offeredFields.map(({ name, argument = name, agentAbout, takes, isRequired }) => {
    // The model is optional here, since vidgen has a default.
    const isArgumentRequired = isRequired && name !== "model";
    const type = argumentTypes[takes];
    return [argument, (isArgumentRequired ? type : type.optional()).describe(agentAbout)];
  });
  return Object.fromEntries(entries);
}

function readArguments(args: Readonly<Record<string, Argument>>) {
  const texts: FieldTexts = {};
  const images: Record<string, string[]> = {};
  for (const field of fields) {
    const { name, argument = name } = field;
    const value = args[argument];
    if (value === undefined) continue;
    if (isImageField(field)) images[name] = [value].flat().map(String);
    else texts[name] = String(value);
  }
  return { texts, images };
}

async function readValidImages(images: Images, onNote: (text: string) => void): Promise<Images> {
  const read = await readAllImages(images, { onNote });
  for (const { name, argument } of imageFields) {
    const fault = read[name]?.map(findImageFault).find((text) => text !== undefined);
    if (fault !== undefined) throw usage(`${argument} ${fault}.`);
  }
  return read;
}

function faultError({ field, subject, text }: FieldFault) {
  return usage(`${subject ?? field} ${text}.`, "Nothing was sent: call the tool again with other arguments.");
}

/** Many clients cut a result at 25,000 tokens, and prompts may be long. */
const maxListedPrompt = 200;

function listTool({ services }: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "list_videos",
    title: "List videos",
    description:
      "Lists the generations that were started on this computer, newest first, by any program. Status unknown means that the request was sent but got no usable response: it may have been charged.",
    input: z.strictObject({
      limit: z.number().int().min(1).max(200).optional().describe("20 by default."),
      status: z.enum(statuses).optional(),
    }),
    output: z.object({
      videos: z.array(
        z.object({
          id: z.string().nullable().describe("null if the service never returned one."),
          attempt: z.string(),
          status: z.string(),
          model: z.string(),
          prompt: z.string().describe("Its first 200 characters."),
          started_at: z.string(),
          file: z.string().nullable().describe("Where it was saved."),
          error: z.string().nullable(),
          service: z.string(),
        }),
      ),
    }),
    hints: { readOnly: true },
    async run({ limit = 20, status }) {
      const entries = await listAttempts({ limit, status }, services.journal, io);
      return {
        videos: entries.map(({ id = null, attempt, status, request, at, file = null, reason = null, base_url }) => ({
          id,
          attempt,
          status,
          model: request.model,
          prompt: shorten(request.prompt, maxListedPrompt),
          started_at: at,
          file,
          error: reason,
          service: serviceName(base_url),
        })),
      };
    },
  });
}

function serviceName(baseUrl: string): string {
  return baseUrl === localBaseUrl ? "local" : baseUrl;
}

function modelsTool({ services, local = false }: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "list_models",
    title: "List models",
    description:
      "Lists the models and what each is good at, with prices where they are known. Other models that the service has are accepted too. Costs nothing.",
    input: z.strictObject({
      duration: z.number().positive().optional().describe("A length in seconds, to see what such a video costs."),
      resolution: z.string().optional().describe("A resolution, such as 1080p, to see what such a video costs."),
    }),
    output: z.object({
      models: z.array(
        z.object({
          id: z.string(),
          characteristic: z.string(),
          default: z.boolean(),
          images: z.object({ min: z.number(), max: z.number() }).nullable().describe("How many images it needs."),
          credits: creditsField.describe("What a video costs, in credits; null if that is unknown."),
          cost: z.number().nullable().describe("What a video costs, in US dollars; null if that is unknown."),
          cost_source: z.string().nullable().describe("Whose list has this cost, such as OpenRouter."),
          prices: z
            .array(z.looseObject({ service: z.string(), at: z.string() }))
            .describe(
              "What services stated for earlier videos of this computer, newest first: credits, or cost in US dollars.",
            ),
        }),
      ),
      aspect_ratios: z.array(z.string()).describe("Usual ratios; the service may accept others."),
      max_seconds: z.number().nullable().describe("The longest video; null if it depends on the service."),
      note: z.string(),
    }),
    hints: { readOnly: true, openWorld: true },
    async run({ duration, resolution }) {
      const defaultId = (await findModelSetting(io)) ?? defaultModel;
      const entries = await readRecent(services.journal);
      const service = await services.open().then(
        (session) => session.service,
        () => undefined,
      );
      const estimate = service && (await openEstimates(service, entries, io.signal));
      const described = models.map(({ images = null, ...model }) => {
        const earlier = listEarlierPrices(entries, model.id);
        const isPaid = service !== undefined && !service.isFree(model.id);
        const { credits, usd } = (isPaid && estimate?.({ prompt: "", model: model.id, duration, resolution })) || {};
        // Without a length and a resolution, the newest price of any is shown.
        const isAny = !local && duration === undefined && resolution === undefined;
        const here = earlier.find(({ base_url }) => base_url === service?.baseUrl);
        const stated = isAny ? (here ?? earlier[0]) : undefined;
        const price = {
          credits: knownAmount(credits) ?? stated?.credits ?? null,
          cost: knownAmount(usd) ?? stated?.cost ?? null,
          cost_source: usd?.source ?? null,
        };
        const prices = earlier.map(describeEarlierPrice).map(({ base_url, ...each }) => ({
          service: serviceName(base_url),
          ...each,
        }));
        return { ...model, default: model.id === defaultId, images, ...price, prices };
      });
      const note = local
        ? "Previews are free. A provider charges for real videos."
        : "Lengths and ratios depend on the service. The price may depend on the length too.";
      return { models: described, aspect_ratios: [...aspectRatios], max_seconds: local ? maxLocalSeconds : null, note };
    },
  });
}

function creditsTool({ services, local, baseUrl }: ToolOptions, io: Io): Tool {
  return defineTool({
    name: "get_credits",
    title: "Show the credits left",
    description:
      "Returns how many credits were left after the last start; the service states the balance only at a start. Costs nothing.",
    input: z.strictObject({}),
    output: z.object({ remaining_credits: creditsField, as_of: z.string().nullable(), note: z.string() }),
    hints: { readOnly: true },
    async run() {
      const service = local ? localBaseUrl : await findBaseUrl(baseUrl, io);
      const hasBalance = (entry: Entry): entry is Entry & { remaining_credits: number } =>
        entry.base_url === service && entry.remaining_credits !== undefined;
      const found = await findNewest(services.journal, hasBalance);
      if (service === undefined)
        return { remaining_credits: null, as_of: null, note: "No service is set: a person must run `vidgen login`." };
      if (found === undefined)
        return {
          remaining_credits: null,
          as_of: null,
          note: "The service has stated no balance at a start on this computer yet.",
        };
      return {
        remaining_credits: found.remaining_credits,
        as_of: found.at,
        note: `Left after a start ${formatAge(found, io)} ago; other programs may have spent more since.`,
      };
    },
  });
}
