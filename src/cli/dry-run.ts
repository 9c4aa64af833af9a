import type { Choice, WaitChoice } from "../client/ledger/policy.ts";
import { formatAge, formatExpected } from "../connect/format.ts";
import type { Session } from "../connect/session.ts";
import { asVidgenError, type VidgenError } from "../errors.ts";
import { findWarnings } from "../protocol/fields.ts";
import type { StartRequest } from "../protocol/schema.ts";
import type { Context } from "./context.ts";
import { describeProject } from "./project-values.ts";
import type { StartCommand } from "./start-command.ts";
import type { Output } from "./terminal/output.ts";
import { earlierDocument } from "./terminal/result.ts";

/**
 * `--dry-run`: prints the request as it would be sent, without the key; or the generation that would be
 * resumed, or why nothing would be sent. Needs neither key nor base URL, and notes a missing base URL. Writes
 * nothing.
 */
export async function printDryRun(command: StartCommand, context: Context): Promise<undefined> {
  const { io, output } = context;
  const { projectInput, completeRequests, earlier, origin, outputPath } = command;
  let { requests } = command;
  const { project } = projectInput;
  for (const line of project ? describeProject(project) : []) output.note(line);
  const session = await openForDryRun(command, context);
  for (const warning of new Set(requests.flatMap((each) => findWarnings(each, session?.service)))) output.note(warning);
  if (session === undefined) output.note("No base URL is set; without --dry-run this would fail.");
  const { planStarts } = await import("../client/generation/choose.ts");
  const choose = async () =>
    session && (await planStarts(session.service, requests, { earlier, origin, save: { outputPath } }));
  let choices = await choose();
  if (completeRequests && requests.some((_, index) => isNew(choices?.[index]))) {
    requests = await completeRequests();
    choices = await choose();
  }
  const url = command.flags.local ? "{local service}" : (session?.service.baseUrl ?? "{base_url}");
  const newRequests = requests.filter((_, index) => isNew(choices?.[index]));
  const cost = await describeCosts(newRequests, session, io.signal);
  const [onlyRequest] = requests.length === 1 ? newRequests : [];
  const { checkSingle } = await import("../client/batch/spending.ts");
  const overrun =
    onlyRequest && session && (await checkSingle(onlyRequest, command.budget, session.service, io.signal));
  const parts = [];
  for (const [index, request] of requests.entries())
    parts.push(
      overrun
        ? describeRefusal(overrun, output)
        : await describeDryStart(request, choices?.[index], { command, url }, context),
    );
  const documents = parts.map(({ document }) => document);
  const text = [cost, ...parts.map((part) => part.text)].join("\n\n");
  await output.result(text, requests.length === 1 ? documents[0] : documents);
}

/** The service that a start would use, for reading only; `undefined` if none is set. */
async function openForDryRun({ flags, parent }: StartCommand, { io, output, defer }: Context) {
  const { openServices } = await import("../connect/services.ts");
  const services = await openServices({ ...flags, isStarting: true, isDryRun: true, output }, io);
  defer(services.close);
  return services.open(parent?.base_url).catch((error) => {
    // A missing base URL; a missing key is no error in a dry run.
    if (asVidgenError(error).code === "auth") return undefined;
    throw error;
  });
}

function isNew(choice: Choice | undefined): boolean {
  return choice === undefined || choice.kind === "new";
}

/** The expected cost of the requests, such as "Cost: about 10 credits." */
async function describeCosts(
  requests: readonly StartRequest[],
  session: Session | undefined,
  signal: AbortSignal,
): Promise<string> {
  if (requests.length === 0) return "Cost: nothing.";
  if (session === undefined) return "Cost: unknown, since no service is set.";
  const refused = requests.find(({ model }) => session.isUnserved(model));
  if (refused) return `Cost: nothing. No engine makes ${refused.model}: the start would be refused.`;
  const { expectCost } = await import("../client/generation/cost.ts");
  const cost = formatExpected(await expectCost(session.service, requests, signal));
  if (cost !== undefined) return `Cost: ${cost}.`;
  return "Cost: unknown: no price for this request was stated before. `vidgen models` shows the known prices.";
}

type DryRunPart = { text: string; document: unknown };

async function describeDryStart(
  request: StartRequest,
  choice: Choice | undefined,
  { command, url: baseUrl }: { command: StartCommand; url: string },
  context: Context,
): Promise<DryRunPart> {
  const { io, output } = context;
  if (choice !== undefined && choice.kind !== "new") return describeChoice(choice, command, context);
  for (const { attempt } of choice?.dismissed ?? [])
    output.note(`Would dismiss attempt ${attempt}, which was or may have been charged.`);
  const { startInit } = await import("../client/http/api.ts");
  const { method, headers, body } = startInit(request, io.uuid());
  const url = `${baseUrl}/api/generate`;
  const allHeaders = { Authorization: "Bearer [key left out]", ...headers };
  // The bytes of an image would fill the screen.
  const shownBody = JSON.parse(body, (_, value) => (isImage(value) ? value.replace(/,.*/s, ",...") : value));
  const lines = Object.entries(allHeaders).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${url}`, ...lines, "", JSON.stringify(shownBody, null, 2)].join("\n");
  const document = { method, url, headers: allHeaders, body: shownBody };
  const { file } = command.projectInput.project ?? {};
  return { text, document: file === undefined ? document : { ...document, project: file } };
}

const waitReasons: Record<WaitChoice["because"], string> = {
  starting: "another process is starting the same request",
  unknown:
    "the same request got no usable response, and its process is still working on it; after 60 s nothing is sent",
  unsure:
    "for up to 60 s it is not known whether the process that started the same request, on another machine, is still running",
};

async function describeChoice(
  choice: Exclude<Choice, { kind: "new" }>,
  { earlier }: StartCommand,
  { io, output }: Context,
): Promise<DryRunPart> {
  if (choice.kind === "resume") {
    const { entry } = choice;
    const text = `Would resume ${entry.id}, started ${formatAge(entry, io)} ago; no request would be sent, nothing would be charged.`;
    const document = earlierDocument(entry);
    return { text, document: earlier === "reuse" ? { reuse: document } : { resume: document } };
  }
  if (choice.kind === "wait") {
    const { attempt } = choice.entry;
    const text = `Would wait: ${waitReasons[choice.because]} (attempt ${attempt}).`;
    return { text, document: { wait: { attempt } } };
  }
  const { refusalError } = await import("../client/ledger/refusal.ts");
  const error = refusalError(choice);
  const resend =
    choice.key === undefined
      ? ""
      : " The request would be sent again with the Idempotency-Key of that attempt only if the service says that it recognizes this key: then it cannot be charged twice.";
  return describeRefusal(error, output, resend);
}

function describeRefusal(error: VidgenError, { errorDocument }: Pick<Output, "errorDocument">, more = ""): DryRunPart {
  const text = `Would send nothing, and end with exit code ${error.exit}: ${error.message}${more}`;
  return { text, document: errorDocument(error) };
}

function isImage(value: unknown): value is string {
  return typeof value === "string" && value.startsWith("data:image/");
}
