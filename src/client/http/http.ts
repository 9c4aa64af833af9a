import { VidgenError } from "../../errors.ts";
import { type HttpResponse, type Io, RequestError } from "../../io.ts";
import type { RawReply } from "./paid.ts";

/**
 * Creates `Io["fetch"]`. A POST uses a connection of its own (`paid.ts`); everything else is free, may be
 * sent twice, and uses undici. Both are loaded with their first request, and connect as `connection.ts` does,
 * through the proxies of `env`. Only the CLI passes `nodeVersion`, which permits setting a V8 flag, because a
 * library must not change its process.
 */
export function createFetch(env: Io["env"], { nodeVersion = "" } = {}): Io["fetch"] {
  let loading: ReturnType<typeof import("./free.ts").createFreeSender> | undefined;
  return async (url, init = {}) => {
    if (init.method === "POST") {
      const { postPaid } = await import("./paid.ts").catch((error) => {
        throw new RequestError(error, { sent: false });
      });
      return createResponse(await postPaid(url, init, env));
    }
    try {
      loading ??= import("./free.ts").then(({ createFreeSender }) => createFreeSender(env, nodeVersion));
      const sendFree = await loading.catch((error) => {
        loading = undefined;
        throw error;
      });
      return createResponse(await sendFree(url, init));
    } catch (error) {
      // Without undici no later request works either.
      throw error instanceof VidgenError ? error : new RequestError(error, { sent: true });
    }
  };
}

function createResponse({ statusCode, headers, body }: RawReply): HttpResponse {
  const get = (name: string) => [headers[name.toLowerCase()] ?? []].flat().join(", ") || null;
  const text = async () => (await import("node:stream/consumers")).text(body);
  return { status: statusCode, headers: { get }, body, text };
}
