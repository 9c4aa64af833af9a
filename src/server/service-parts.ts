import type { Clock } from "../io.ts";
import type { DeliveryEvent } from "./callbacks/delivery.ts";
import type { Engine } from "./engines/engine.ts";
import type { MediaStore } from "./media/media-store.ts";
import type { ReportProblem } from "./observe/problem.ts";
import type { Counts, CreateOutcome, EndedGeneration } from "./outcomes.ts";
import type { EngineOrigin, StoredGeneration } from "./store/generations.ts";
import type { Store } from "./store/store.ts";

/** The parts and the settings of the service. Each room picks those that it needs. */
export type ServiceParts = {
  store: Store;
  videos: MediaStore;
  clock: Clock;
  /** The engines of this process. The list changes when the owner changes it, so what is derived from it must not be cached. */
  engines: readonly Engine[];
  /** The credits that a start costs, by model, where it is not the default price. The map changes as the list of engines does. */
  creditsPer: ReadonlyMap<string, number>;
  /** Whether previews cost the owner of the service credits too, as they cost every other account. */
  hasPaidPreviews: boolean;
  /** Whether directives in prompts apply to real models too. */
  hasDirectives: boolean;
  /** Whether accounts other than the owner's may send fields that vidgen does not know to real models. */
  hasPassthrough?: boolean | undefined;
  /** Whether a failure of the service, and a cancellation, return the credits. */
  hasRefunds: boolean;
  /** Whether a video is served by a redirect to the store's own URL, where the store has one. */
  hasRedirects?: boolean | undefined;
  /** For how many milliseconds videos, and the records of generations, are kept after their end; without a limit if `undefined`. */
  keep?: { videosMs?: number | undefined; recordsMs?: number | undefined } | undefined;
  /** How long the preview takes for a generation: only as long as rendering takes, or as long as a real model. */
  pace: "fast" | "realistic";
  /** The program's name in commands on the page; "vidgen" by default. */
  program?: string | undefined;
  /** The folder of page.js, page.css and icon.svg; by default, beside the program. */
  assets?: URL;
  /** Whether the service runs inside a command, and ends with it: the next command may have other engines. */
  isCommand?: boolean | undefined;
  /** Signs the callbacks of the local account. The secrets of other accounts are derived from it. */
  webhookSecret: string;
  /** The URL of the API for clients, if it differs from its own address, as behind a proxy. */
  publicUrl?: string | undefined;
  /** The URLs of the API and of the videos in replies. */
  baseUrl(): string;
  mediaUrl(): string;
  /** Reads the owner's configuration again and calls `updateEngines`. If the file is invalid, throws an error for people and changes nothing. */
  reload?: (() => Promise<Reloaded>) | undefined;
  /** Opens an engine of an earlier process, to which a generation was submitted. Throws an error with a message for people. */
  reopen?: ((origin: EngineOrigin, options: { isShared: boolean }) => Engine) | undefined;
  /** Called once for each generation that was started here. */
  onStart?: ((generation: StoredGeneration, cost: number) => void) | undefined;
  /** Called with the outcome of each create. */
  onCreate?: ((engine: Engine, created: CreateOutcome) => void) | undefined;
  /** Called once an engine has accepted a generation, or has ended it in another way, with the time since its start. */
  onTaken?: ((model: string, waitedMs: number) => void) | undefined;
  /** Called once for each generation that has ended here. */
  onEnd?: ((ended: EndedGeneration) => void) | undefined;
  /** Called after each attempt to deliver a callback was recorded. */
  onDelivery(event: DeliveryEvent): void;
  /** Called with a line for the owner. */
  onNote(text: string): void;
  reportProblem: ReportProblem;
  /** Resolves with what this process has counted since it started; without metrics, there are no counts. */
  counts?: (() => Promise<Counts>) | undefined;
};

/**
 * The result of reading the owner's file again: the engines that are used now, the new ones, those that only finish what was submitted to
 * them, and the changed fields that take effect after a restart.
 */
export type Reloaded = Record<"engines" | "added" | "draining" | "restart", string[]>;
