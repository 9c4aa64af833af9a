import { homedir } from "node:os";
import { resolve } from "node:path";
import { openService, type Service } from "../client/generation/service.ts";
import { createFetch } from "../client/http/http.ts";
import { unusedProxy } from "../client/http/proxy.ts";
import { createRedaction } from "../client/http/redaction.ts";
import { openJournal } from "../client/ledger/journal.ts";
import { cleanEnv } from "../connect/environment.ts";
import { journalIn, storageFolder } from "../connect/storage.ts";
import { asVidgenError, VidgenError as InternalError, usage } from "../errors.ts";
import type { Machine } from "../io.ts";
import { plainText } from "../protocol/text.ts";
import { checkBaseUrl, readAllowedOrigin } from "../protocol/url.ts";
import { adaptFetch } from "./custom-fetch.ts";
import { restateError, type VidgenError } from "./errors.ts";
import {
  type CallName,
  type CallOptions,
  type ClientOptions,
  checkOptions,
  type ListOptions,
  type StartOptions,
} from "./options.ts";
import { callListener } from "./run.ts";

/** What the calls of a client share. */
export type Connection = {
  service: Service;
  env: NodeJS.ProcessEnv;
  /** Whether the caller has asked for a journal; without one, the service's journal forgets. */
  hasJournal: boolean;
  onNote(text: string): void;
  /** A copy of an error in terms of the library, without secrets. */
  restate(error: InternalError, idempotencyKey?: string): VidgenError;
  /** Aborts when the client is closed. */
  closing: AbortController;
  /** The calls that have not ended. */
  running: Set<Promise<unknown>>;
};

/** A call, and its options, which are not checked yet. */
export type Call = {
  name?: CallName;
  id?: string;
  callOptions?: (StartOptions & ListOptions) | null;
};

/** Connects a client with the service that its options or the environment name. Sends nothing. Throws `usage`. */
export function connect(options: ClientOptions, machine: Machine, processEnv: NodeJS.ProcessEnv): Connection {
  const { env } = cleanEnv(processEnv);
  const { hide, redact } = createRedaction();
  checkOptions("createClient", options);
  const { apiKey = env.VIDGEN_API_KEY ?? "", baseUrl = env.VIDGEN_BASE_URL ?? "" } = options;
  hide(apiKey.trim());
  if (baseUrl === "")
    throw usage(
      "No base URL: pass baseUrl, or set VIDGEN_BASE_URL.",
      "Without an account: run `npx vidgen serve`, and set the two variables that it prints.",
    );
  const onNote = (text: string) => callListener(options.onNote, plainText(redact(text)));
  const journalPath = findJournal(options.journal, env, machine);
  const io = { ...machine, ...transportOf(options, env, machine), unsettled: new Set<string>() };
  const journal = journalPath === undefined ? undefined : openJournal(journalPath, io);
  const protectedPaths = journalPath === undefined ? [] : [journalPath, `${journalPath}.lock`, `${journalPath}.leases`];
  // Plain http is not allowed with a custom fetch, which does not check that the address is private.
  const allowed = options.fetch === undefined ? readAllowedOrigin(env.VIDGEN_ALLOW_HTTP) : undefined;
  const checkedUrl = checkBaseUrl(baseUrl, "baseUrl", allowed === undefined ? [] : [allowed]);
  const proxyWarning = options.fetch === undefined ? unusedProxy(new URL(baseUrl), env) : undefined;
  if (proxyWarning !== undefined) onNote(`${proxyWarning.says} ${proxyWarning.fix}`);
  return {
    service: openService({ baseUrl: checkedUrl, apiKey, journal, protectedPaths, onNote }, io),
    env,
    hasJournal: journal !== undefined,
    onNote,
    restate: (error, idempotencyKey) => restateError(error, { journal: journalPath, idempotencyKey, redact }),
    closing: new AbortController(),
    running: new Set(),
  };
}

/** What sends the requests. The library does not touch the signals, streams and exit of the program that uses it. */
function transportOf({ fetch }: ClientOptions, env: NodeJS.ProcessEnv, machine: Machine) {
  if (fetch !== undefined) return { fetch: adaptFetch(fetch, machine), loadDelivery: undefined };
  const loadDelivery = async () => (await import("../client/http/free.ts")).loadUndici();
  return { fetch: createFetch(env), loadDelivery };
}

function findJournal(
  journal: ClientOptions["journal"],
  env: NodeJS.ProcessEnv,
  { platform }: Pick<Machine, "platform">,
): string | undefined {
  if (journal === "") throw usage("The path of the journal is empty.");
  if (journal !== true) return journal === undefined ? undefined : resolve(journal);
  return journalIn(storageFolder("state", { env, home: homedir(), platform }));
}

/**
 * A signal that aborts at the caller's, or when the client is closed. The options are not checked yet, so
 * they may have any type.
 */
export function withClosing({ closing }: Connection, callOptions: CallOptions | null | undefined): AbortSignal {
  const signal = callOptions?.signal instanceof AbortSignal ? [callOptions.signal] : [];
  return AbortSignal.any([...signal, closing.signal]);
}

/** Runs a call with a signal whose reason is a `VidgenError`. Rejects only with a `VidgenError`. */
export function runCall<Result>(
  connection: Connection,
  call: Call,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const { running, restate } = connection;
  const { name, callOptions } = call;
  const interrupted = interruptedBy(withClosing(connection, callOptions));
  const result = (async () => {
    try {
      if (name !== undefined) checkOptions(name, callOptions);
      if ("id" in call && (typeof call.id !== "string" || call.id === "")) throw usage("The id is empty.");
      return await work(interrupted.signal);
    } catch (thrown) {
      throw restate(asVidgenError(thrown).with({ id: call.id }), callOptions?.idempotencyKey);
    } finally {
      interrupted.release();
    }
  })();
  const ended = result.catch(() => {}).finally(() => running.delete(ended));
  running.add(ended);
  return result;
}

/** A signal that aborts with another one, with a `VidgenError` as its reason. */
export function interruptedBy(signal: AbortSignal): { signal: AbortSignal; release(): void } {
  const controller = new AbortController();
  const onAbort = () => controller.abort(new InternalError("interrupted", "Interrupted.", { cause: signal.reason }));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return { signal: controller.signal, release: () => signal.removeEventListener("abort", onAbort) };
}
