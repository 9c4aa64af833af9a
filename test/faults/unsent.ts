import dns from "node:dns";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { createCertificate } from "./certificate.ts";
import { ugliness, vidgen } from "./client.ts";
import { type Goal, portion, tally } from "./goal.ts";
import { createService, type Service } from "./server.ts";
import { listen, pause } from "./wire.ts";
import { inFolder, readJournal } from "./work.ts";

/** One way not to get through to the service. */
type Scene = {
  baseUrl: string;
  env?: Record<string, string>;
  /** Does away with the fault; without it time does not mend it, and it is not tried again. */
  mend?(): Promise<void> | void;
  close?(): Promise<void>;
  /** How much faster the clock goes where the fault stays, and where it goes. */
  speeds?: [number, number];
  /** When it is mended; in real milliseconds. */
  mendMs?: number;
};

/** Goal 3: before a byte of the request was written nothing can be charged, and the client knows it. */
export const unsent: Goal = {
  number: 3,
  title: "failures before anything was sent",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const faults: string[] = [];
      const codes: string[] = [];
      let mended = 0;
      let mendable = 0;
      const check = async (kind: string, isMended: boolean, i: number) => {
        const scene = await (scenes[kind] as (service: Service) => Promise<Scene>)(service);
        if (isMended && !scene.mend) return scene.close?.();
        const prompt = `${kind} ${isMended} ${i}`;
        const home = join(folder, prompt.replaceAll(/\W/g, "-"));
        const env = { VIDGEN_HOME: home, VIDGEN_BASE_URL: scene.baseUrl, VIDGEN_API_KEY: "key" };
        const speed = (scene.speeds ?? [100, 20])[isMended ? 1 : 0] as number;
        const mending = isMended ? pause(scene.mendMs ?? 100).then(() => scene.mend?.()) : undefined;
        const run = await withEnvironment(scene.env ?? {}, () =>
          vidgen(["generate", prompt, "--no-wait"], env, { speed }),
        );
        await mending;
        await scene.close?.();
        const { length } = service.oracle.startsOf(prompt);
        const say = (what: string) => faults.push(`${kind}${isMended ? ", mended" : ""}: ${what}: ${run.stderr}`);
        for (const ugly of ugliness(run)) say(ugly);
        if (isMended) {
          mendable++;
          if (run.code === 0 && length === 1) mended++;
          else say(`exit ${run.code}, ${length} starts`);
          return;
        }
        codes.push(`exit ${run.code}`);
        if (run.code !== 8 || length > 0) say(`exit ${run.code}, ${length} starts`);
        if (!run.stderr.includes("Nothing was sent, nothing was charged")) say("does not say that nothing was sent");
        if (!readJournal(home).some((line) => line.kind === "unsent")) say("not in the journal");
      };
      const times = portion(3, share);
      for (const kind of Object.keys(scenes)) {
        for (let i = 0; i < times; i++) await check(kind, false, i);
        if (kind !== "no answer to a connection" || share === 1) await check(kind, true, 0);
      }
      await service.close();
      return {
        figures: `${Object.keys(scenes).length} kinds x ${times}: ${tally(codes)}; mended: ${mended} of ${mendable} succeed`,
        target: "all exit 8 as unsent; all that are mended succeed",
        faults,
      };
    }),
};

const certificate = createCertificate();

const scenes: Record<string, (service: Service) => Promise<Scene>> = {
  async "a refused connection"() {
    // On this machine nothing will listen there before somebody starts it: it is not tried again.
    return { baseUrl: `http://127.0.0.1:${await freePort()}` };
  },
  async "a name that does not exist"() {
    const { lookup } = dns;
    // No name server is asked: what it would say is known.
    const missing = (...given: unknown[]) =>
      (given.at(-1) as (error: Error) => void)(
        Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" }),
      );
    Object.assign(dns, { lookup: missing });
    return { baseUrl: "https://api.vidgen.invalid", close: async () => void Object.assign(dns, { lookup }) };
  },
  async "no answer to a connection"(service) {
    // Up to 10 s for a connection (`connection.ts`); then time enough has to be left.
    return { ...(await behindTls(service, () => true)), speeds: [100, 4], mendMs: 9_000 };
  },
  async "a connection reset in the handshake"(service) {
    return behindTls(service, (socket) => !!socket.resetAndDestroy());
  },
  async "a handshake that fails"() {
    // A fatal alert: handshake_failure.
    const refuse = (socket: Socket) => !!socket.end(Buffer.from("15030300020228", "hex"));
    const front = await listen({ onConnection: refuse });
    return { baseUrl: `https://127.0.0.1:${front.port}`, close: front.close };
  },
  async "a certificate of nobody's"() {
    const server = await listen({}, { tls: certificate });
    return { baseUrl: `https://127.0.0.1:${server.port}`, close: server.close };
  },
  async "TLS to a plain port"(service) {
    return { baseUrl: service.baseUrl.replace("http:", "https:") };
  },
  async "a proxy that says 502"(service) {
    return behindProxy(service, "502 Bad Gateway");
  },
  async "a proxy that says 407"(service) {
    // Whoever asks again may be locked out.
    const { mend: _, ...scene } = await behindProxy(service, "407 Proxy Authentication Required");
    return scene;
  },
  async "a proxy that is not there"(service) {
    return behindProxy(service, undefined);
  },
};

/** The service over TLS with a certificate that counts for once, behind connections that fail until they are mended. */
async function behindTls(service: Service, fail: (socket: Socket) => boolean): Promise<Scene> {
  let isMended = false;
  const backend = Number(new URL(service.baseUrl).port);
  const tls = await listen(
    { onConnection: (socket) => splice(socket, connect(backend, "127.0.0.1")) },
    { tls: certificate },
  );
  const front = await listen({
    onConnection: (socket) => (isMended ? splice(socket, connect(tls.port, "127.0.0.1")) : fail(socket)),
  });
  return {
    baseUrl: `https://127.0.0.1:${front.port}`,
    env: { NODE_TLS_REJECT_UNAUTHORIZED: "0" },
    mend() {
      isMended = true;
    },
    close: async () => void (await Promise.all([front.close(), tls.close()])),
  };
}

/** The service by a name that only a proxy knows: one that turns everybody away, or without a refusal is not there at all. */
async function behindProxy(service: Service, refusal: string | undefined): Promise<Scene> {
  const backend = Number(new URL(service.baseUrl).port);
  const tls = await listen(
    { onConnection: (socket) => splice(socket, connect(backend, "127.0.0.1")) },
    { tls: certificate },
  );
  let said = refusal;
  const onHead = (_: unknown, socket: Socket) => {
    if (said !== undefined) return !!socket.end(`HTTP/1.1 ${said}\r\nContent-Length: 0\r\n\r\n`);
    socket.removeAllListeners("data");
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    return splice(socket, connect(tls.port, "127.0.0.1"));
  };
  let proxy = refusal === undefined ? undefined : await listen({ onHead });
  const port = proxy?.port ?? (await freePort());
  return {
    baseUrl: "https://api.vidgen.invalid",
    env: { HTTPS_PROXY: `http://127.0.0.1:${port}`, NODE_TLS_REJECT_UNAUTHORIZED: "0" },
    async mend() {
      said = undefined;
      proxy ??= await listen({ onHead }, { port });
    },
    close: async () => void (await Promise.all([proxy?.close(), tls.close()])),
  };
}

function splice(one: Socket, other: Socket): true {
  other.on("error", () => one.destroy());
  other.on("close", () => one.destroy());
  one.on("close", () => other.destroy());
  one.pipe(other).pipe(one);
  return true;
}

/** A port on which nobody listens. */
async function freePort(): Promise<number> {
  const listener = await listen({});
  await listener.close();
  return listener.port;
}

/** Proxies and trust are read from the process's own environment: set while `work` goes on. */
async function withEnvironment<Result>(env: Record<string, string>, work: () => Promise<Result>): Promise<Result> {
  const clean = { HTTPS_PROXY: "", https_proxy: "", NO_PROXY: "", no_proxy: "", ...env };
  const before = Object.keys(clean).map((name) => [name, process.env[name]] as const);
  for (const [name, value] of Object.entries(clean))
    if (value === "") delete process.env[name];
    else process.env[name] = value;
  try {
    return await work();
  } finally {
    for (const [name, value] of before)
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
  }
}
