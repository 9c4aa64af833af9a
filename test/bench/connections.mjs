import { spawn } from "node:child_process";
import { once } from "node:events";
import { get } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median } from "./measure.mjs";

const clients = 6_000;
const rounds = 100;

/** How long `serve` takes for a request, idle and beside 6,000 clients that connect again when it closes their connections. */
export async function measureConnections({ bin, env, folder, print }) {
  const { VIDGEN_BASE_URL: _, VIDGEN_API_KEY: __, ...others } = env;
  const serve = spawn(process.execPath, [bin, "serve", "--port", "0", "--media-port", "0", "--json"], {
    env: { ...others, VIDGEN_HOME: join(folder, "connections") },
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = await once(serve.stdout, "data");
  const { base_url } = JSON.parse(line);
  // A process of its own, because its work would delay the measured requests.
  let crowd;
  try {
    await measure(base_url);
    const idle = await measure(base_url);
    crowd = spawn(process.execPath, [fileURLToPath(import.meta.url), new URL(base_url).port], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(crowd.stdout, "data");
    const busy = await measure(base_url);
    print(
      `request beside ${clients} clients`,
      `${(busy / idle).toFixed(2)} x`,
      `${busy.toFixed(1)} ms / ${idle.toFixed(1)} ms`,
    );
  } finally {
    crowd?.kill();
    serve.kill();
    await once(serve, "close");
  }
}

/** The median time of a request on a connection of its own, in milliseconds. */
async function measure(url) {
  const taken = [];
  for (let i = 0; i < rounds; i++) {
    const start = performance.now();
    const [reply] = await once(get(`${url}/healthz`, { agent: false }), "response");
    await once(reply.resume(), "end");
    taken.push(performance.now() - start);
  }
  return median(taken);
}

/** Keeps that many connections open: each sends a request, and then stays silent until the server closes it. */
function crowdTo(port) {
  let open = 0;
  const dial = () => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    socket.once("connect", () => {
      if (++open === clients) process.stdout.write("ready\n");
      socket.write(`GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
    });
    socket.on("data", () => {}).once("close", () => setTimeout(dial, 1_000));
  };
  for (let i = 0; i < clients; i++) setTimeout(dial, i / 2);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) crowdTo(Number(process.argv[2]));
