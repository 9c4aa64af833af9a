import {
  type BatchEvent,
  type Client,
  type ClientOptions,
  createClient,
  type GenerationRequest,
  type KnownModel,
  type Saved,
  type StartStatus,
  VidgenError,
} from "vidgen";
import type { VidgenModel, VidgenProvider } from "vidgen/ai-sdk";
import { expectTypeOf, test } from "vitest";
import type { WireBatchEvent } from "../../src/client/batch/iterate.ts";
import type { Status } from "../../src/client/ledger/attempt.ts";
import type { FieldName, ImageName } from "../../src/protocol/fields.ts";

// What must not compile: tsc, which `npm test` runs, fails at each of these that does.

const request = { prompt: "a fox", model: "ray-3" };

test("a request has no misspelled fields, and no values of another kind", () => {
  // @ts-expect-error
  ({ ...request, durration: 5 }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, imageURL: "https://images.example/fox.png" }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, aspect_ratio: "16:9" }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ prompt: "a fox", model: 3 }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ model: "ray-3" }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, images: "fox.png" }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, images: [3] }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, images: [new Blob()] }) satisfies GenerationRequest;
  // @ts-expect-error
  ({ ...request, extra: "seed" }) satisfies GenerationRequest;
  ({ ...request, images: ["fox.png", new URL("https://x.example"), new Uint8Array()] }) satisfies GenerationRequest;
  expectTypeOf<"ray-3">().toExtend<KnownModel>();
  expectTypeOf<"ray-33">().not.toExtend<KnownModel>();
});

type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : Name;

test("a request has each field of `fields.ts` that services may take: the images of any number, the others in camelCase", () => {
  type Named = CamelCase<Exclude<FieldName, ImageName>>;
  expectTypeOf<keyof GenerationRequest>().toEqualTypeOf<Named | "images" | "extra" | "exactPrompt">();
});

test("a call has no misspelled options, and nothing that it cannot do without is left out", () => {
  type Start = NonNullable<Parameters<Client["start"]>[1]>;
  // @ts-expect-error
  ({ idempotencykey: "order-17" }) satisfies Start;
  // @ts-expect-error
  ({ onExisting: "never" }) satisfies Start;
  // @ts-expect-error
  ({ timeout: 1 }) satisfies NonNullable<Parameters<Client["follow"]>[1]>;
  // @ts-expect-error
  ({ apikey: "key" }) satisfies ClientOptions;
  // @ts-expect-error
  ({ journal: false }) satisfies ClientOptions;
  // @ts-expect-error
  expectTypeOf<Client["download"]>().toBeCallableWith("id");
  // @ts-expect-error
  expectTypeOf<Client["batch"]>().toBeCallableWith([{ request }], {});
  // @ts-expect-error
  expectTypeOf<Client["generate"]>().toBeCallableWith("a fox");
});

test("what comes back has no more than it has", () => {
  expectTypeOf<Awaited<ReturnType<Client["generate"]>>["file"]>().toEqualTypeOf<Saved["file"] | undefined>();
  expectTypeOf<Client["status"]>().returns.resolves.not.toHaveProperty("video_url");
  // @ts-expect-error
  () => new VidgenError("bug", "made by the library alone");
  // @ts-expect-error
  (error: VidgenError) => error.code === "no_such_code";
  // @ts-expect-error
  (error: VidgenError) => error.code === "terminated";
  // @ts-expect-error
  (event: Extract<BatchEvent, { event: "error" }>) => event.error.code === "hung_up";
  (event: Extract<BatchEvent, { event: "error" }>) => event.error.code === "credits";
  expectTypeOf(createClient).returns.toEqualTypeOf<Client>();
});

type EventNames<Event extends { event: string }> = { [Name in Event["event"]]: keyof Extract<Event, { event: Name }> };

type LibraryName<Name extends string> = Name extends "attempt" ? "idempotencyKey" : CamelCase<Name>;

test("what is written out for the library is what the client has", () => {
  type Wire = EventNames<WireBatchEvent>;
  expectTypeOf<EventNames<BatchEvent>>().toEqualTypeOf<{ [Event in keyof Wire]: LibraryName<Wire[Event]> }>();
  expectTypeOf<StartStatus>().toEqualTypeOf<Status>();
});

test("a provider gives models that start and tell, by the name of a model", () => {
  expectTypeOf<VidgenProvider>().returns.toEqualTypeOf<VidgenModel>();
  expectTypeOf<VidgenModel["doStart"]>().toBeFunction();
  // @ts-expect-error
  expectTypeOf<VidgenProvider>().toBeCallableWith(3);
});
