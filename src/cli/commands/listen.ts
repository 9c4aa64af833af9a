import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { findLocalSecret } from "../../connect/local.ts";
import { traceFetch } from "../../connect/trace.ts";
import { readNumber } from "../../connect/values.ts";
import { asVidgenError, systemCode, systemReason, usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { isPrivateAddress } from "../../protocol/addresses.ts";
import type { Callback, CallbackFault, Incoming } from "../../protocol/callback.ts";
import { withScheme } from "../../protocol/url.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import type { ForwardAnswer } from "../listen/forward.ts";
import { type Output, plainLine } from "../terminal/output.ts";

export function addListen(program: CommandUnknownOpts, context: Context): void {
  declare(program).action((options) => listen(options, context));
}

function declare(program: CommandUnknownOpts) {
  const command = program
    .command("listen")
    .helpGroup("Run a service:")
    .summary("receive, check and forward callbacks")
    .description(
      "Receives callbacks on this machine during development. Checks the signature and the age of each callback, and forwards each valid one to your application once. Prints a line for each, and responds with 2xx only if your application did. The secret is VIDGEN_WEBHOOK_SECRET, else the local service's secret. A service on another machine needs --host, in a private network, or a tunnel to the port.",
    )
    .option("--host <address>", "address to listen on, of this machine or a private network", "127.0.0.1")
    .option("--port <number>", "port to listen on; 0 for any free port", "8789")
    .option(
      "--forward <url>",
      "URL where your application receives callbacks, with the same body and webhook-* headers",
    )
    .option("--no-check", "accept callbacks without checking signatures, for a service that does not sign them");
  return withDetails(command, {
    examples: ["vidgen listen", "vidgen listen --forward http://localhost:3000/hooks", "vidgen listen --port 0 --json"],
    after: 'To try it: vidgen generate "a fox" --local --callback-url http://127.0.0.1:8789/',
  });
}

type ListenFlags = ReturnType<ReturnType<typeof declare>["opts"]>;

/** Receives callbacks until Ctrl-C or SIGTERM. Prints a line for each; with `--json` first a document with the address. */
async function listen(options: ListenFlags, context: Context): Promise<void> {
  const { io, output } = context;
  const at = { host: checkHost(options.host), port: readNumber(options.port, "--port", { max: 65_535 }) };
  const forward = checkForward(options.forward);
  await checkOwnSecret(io);
  const findSecret = createSecretFinder(options, context);
  const secret = await findSecret();
  const { openEndpoint } = await import("../listen/endpoint.ts");
  const endpoint = await openEndpoint(at, await createAnswer(forward, findSecret, context)).catch((error) => {
    throw openingError(error, at);
  });
  try {
    const { url } = endpoint;
    output.document({ event: "listening", callback_url: url });
    output.note(`Start a generation with --callback-url ${url}`);
    if (secret === undefined) output.note(uncheckedNote(options));
    output.note("Press Ctrl-C to stop.");
    await untilStopped(io);
  } finally {
    await endpoint.close();
  }
}

/** Callbacks come by plain http, so only from this machine or a private network. Throws `usage` for another address. */
function checkHost(host: string): string {
  if (isPrivateAddress(host)) return host;
  throw usage(
    `--host must be an IP address of this machine in a private network, such as 10.0.0.5, not "${host}".`,
    "From other networks, use a tunnel to the port.",
  );
}

/** The URL of the application. Throws `usage` for an invalid one. */
function checkForward(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const address = withScheme(text);
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (!url || !/^https?:$/.test(url.protocol)) throw usage(`--forward is not an http(s) URL: ${text}`);
  if (url.username || url.password) throw usage("--forward must not contain a user name or password.");
  return url.href;
}

async function checkOwnSecret({ env }: Pick<Io, "env">): Promise<void> {
  const { isSecret } = await import("../../protocol/callback.ts");
  if (env.VIDGEN_WEBHOOK_SECRET && !isSecret(env.VIDGEN_WEBHOOK_SECRET))
    throw usage("VIDGEN_WEBHOOK_SECRET is not a Standard Webhooks secret: it must be whsec_ followed by base64.");
}

/** Finds the secret: VIDGEN_WEBHOOK_SECRET, or that of the local service, which may start later; `--no-check` needs none. */
function createSecretFinder({ check }: ListenFlags, { io, output }: Context): () => Promise<string | undefined> {
  let secret: string | undefined;
  return async () => {
    if (!check || secret !== undefined) return secret;
    secret = io.env.VIDGEN_WEBHOOK_SECRET || (await findLocalSecret(io));
    if (secret !== undefined) output.hide(secret);
    return secret;
  };
}

/** Returns a handler that prints a line for each request and resolves with the HTTP status of the answer. */
async function createAnswer(
  forward: string | undefined,
  findSecret: () => Promise<string | undefined>,
  { io, output }: Context,
): Promise<(incoming: Incoming) => Promise<number>> {
  const { readCallback } = await import("../../protocol/callback.ts");
  const { createForwarder } = await import("../listen/forward.ts");
  const fetch = forward === undefined ? io.fetch : traceFetch(io.fetch, forward, output, io);
  const pass = createForwarder(forward, { fetch, limit: io.limit, signal: io.signal });
  const receive = async (incoming: Incoming): Promise<Received> => {
    const callback = readCallback(incoming, await findSecret());
    return "fault" in callback ? callback : { ...callback, ...(await pass(callback)) };
  };
  return async (incoming) => {
    const start = io.now();
    const received = await receive(incoming).catch(
      (error): CallbackFault => ({ httpStatus: 500, fault: asVidgenError(error).message }),
    );
    const took_ms = Math.round(io.now() - start);
    output.line(plainLine(`${describe(received, output)} -> ${received.httpStatus} in ${took_ms} ms`));
    output.document({
      ...callbackDocument(received),
      http_status: received.httpStatus,
      took_ms,
      at: io.date().toISOString(),
    });
    return received.httpStatus;
  };
}

/** A callback and the answer to it, or the reason why the request was refused. */
type Received = (Callback & ForwardAnswer & { isDuplicate: boolean }) | CallbackFault;

/** Such as "completed 7d562bbb signature ok". */
function describe(received: Received, { redact }: Pick<Output, "redact">): string {
  if ("fault" in received) return `refused: ${received.fault}`;
  const { status = "?", id = "?", isSigned, isVerified, isDuplicate, reason } = received;
  const unchecked = isSigned ? "not checked" : "not signed, not checked";
  const parts = [
    isVerified ? "signature ok" : unchecked,
    ...(isDuplicate ? ["duplicate"] : []),
    ...(reason === undefined ? [] : [`not forwarded: ${reason}`]),
  ];
  // Redacted first: a part of a secret would not be recognized.
  return `${redact(status).slice(0, 20)} ${redact(id).slice(0, 8)} ${parts.join(", ")}`;
}

function callbackDocument(received: Received): object {
  const event = "callback";
  const none = { id: null, status: null, video_url: null, webhook_id: null, verified: false, duplicate: false };
  if ("fault" in received) return { event, ...none, error: received.fault };
  const { id = null, status = null, videoUrl = null, webhookId = null, reason = null } = received;
  const { isVerified: verified, isDuplicate: duplicate } = received;
  return { event, id, status, video_url: videoUrl, webhook_id: webhookId, verified, duplicate, error: reason };
}

function uncheckedNote({ check }: ListenFlags): string {
  if (!check) return "Signatures are not checked.";
  return "Signatures are not checked: set VIDGEN_WEBHOOK_SECRET to the service's secret. Once the local service has run on this machine, its secret is used.";
}

function openingError(error: unknown, { host, port }: { host: string; port: number }) {
  const code = systemCode(error);
  if (code === "EADDRINUSE")
    return usage(`${host}:${port} is in use.`, "Choose another port with --port, or 0 for any free port.");
  return usage(`Cannot listen on ${host}:${port}: ${systemReason(error)}.`);
}

function untilStopped({ signal }: Pick<Io, "signal">): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
