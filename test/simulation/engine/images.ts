import type { Outbound } from "../../../src/server/outbound/outbound.ts";
import { aPng } from "../../server/queue/pictures.ts";
import type { Process } from "./process.ts";

/** How the host of an image fails: in ways that may pass, and in ways that do not. */
export const passingFaults = ["429", "503", "cut", "no name", "forbidden", "silence"] as const;
export const lastingFaults = ["404", "SVG", "too large", "a private redirect"] as const;
export type ImageFault = (typeof passingFaults)[number] | (typeof lastingFaults)[number];

/** Where a generation's image is, and for how long after the first request it cannot be fetched; `undefined`: for ever. */
export type Image = { fault: ImageFault; failsMs: number | undefined };

const imageUrlStart = "https://images.test/";

export function imageUrlOf(name: string): string {
  return `${imageUrlStart}${name}.png`;
}

/** When each image was first asked for and first sent, by the name of its generation. */
export type Asked = Map<string, { firstAt: number; sentAt?: number }>;

export type ImageHost = { getFor(process: Process): Outbound["get"]; asked: Asked };

/** The host of all images. */
export function createImageHost({
  now,
  imageOf,
  onAsked,
}: {
  now(): number;
  imageOf(name: string): Image | undefined;
  onAsked(name: string, reply: string): void;
}): ImageHost {
  const asked: Asked = new Map();
  const rejects = (message: string, facts: object = {}) => Promise.reject(Object.assign(new Error(message), facts));
  return {
    asked,
    getFor:
      (process) =>
      (url, { signal }) =>
        process.call("poll", async () => {
          const name = url.slice(imageUrlStart.length, -".png".length);
          const { fault, failsMs } = imageOf(name) ?? {};
          const first = asked.get(name) ?? { firstAt: now() };
          asked.set(name, first);
          if (failsMs !== undefined && now() - first.firstAt >= failsMs) {
            first.sentAt ??= now();
            onAsked(name, "200");
            return { status: 200, body: aPng(1, 1) };
          }
          onAsked(name, fault ?? "");
          const empty = new Uint8Array();
          if (fault === "429" || fault === "503" || fault === "404") return { status: Number(fault), body: empty };
          if (fault === "SVG") return { status: 200, body: new TextEncoder().encode("<svg/>") };
          if (fault === "cut") return rejects("socket hang up", { code: "ECONNRESET" });
          if (fault === "no name") return rejects("getaddrinfo ENOTFOUND images.test", { code: "ENOTFOUND" });
          if (fault === "forbidden") return rejects("images from 10.0.0.1 are refused", { isForbidden: true });
          if (fault === "too large") return rejects("it is larger than 20 MB", { isFinal: true });
          if (fault === "a private redirect") return rejects("refused", { isForbidden: true, isFinal: true });
          await process.clock.sleep(30_000, signal);
          return rejects("no response within 30 s");
        }),
  };
}
