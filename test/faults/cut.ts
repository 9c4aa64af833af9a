import type { Socket } from "node:net";
import { join } from "node:path";
import { vidgen } from "./client.ts";
import type { Goal } from "./goal.ts";
import type { Generated } from "./oracle.ts";
import { createService } from "./server.ts";
import { endOfId, sendCut, startBody } from "./start-faults.ts";
import { reply } from "./wire.ts";
import { inFolder, side } from "./work.ts";

const decoy = "00000000-dead-4000-a000-000000000000";

/** Ways to write the same start reply, with ids in it that are not the generation's. */
const shapes: Record<string, (generated: Generated) => string> = {
  plain: startBody,
  "indented, the id last": ({ id, prompt, createdAt }) =>
    JSON.stringify({ success: true, data: { prompt, status: "processing", created_at: createdAt, id } }, null, 2),
  "other ids around it": ({ id, prompt }) =>
    JSON.stringify({
      id: decoy,
      request: { id: decoy, data: { id: decoy } },
      list: [{ id: decoy }, decoy],
      data: { parent: { id: decoy }, prompt, id, status: "processing" },
      trace: { id: decoy },
    }),
};

/** What a prompt may say, which comes back in the reply: text that looks like a reply, and letters of several bytes. */
const prompt = `say "data":{"id":"${decoy}"} ünd \\ “fuchs” 🦊 {"success":true,"data":{"id":"${decoy}"`;

/** Goal 4: the id is taken from a cut reply as soon as it is there, and from nowhere else. */
export const cut: Goal = {
  number: 4,
  title: "a 200 cut at every byte",
  run: ({ random, share }) =>
    inFolder(async (folder) => {
      const service = await createService(random);
      const faults: string[] = [];
      const counts = { after: 0, recovered: 0, before: 0, wrong: 0 };
      const step = Math.max(1, Math.round(1 / share));
      const cuts = Object.entries(shapes).flatMap(([name, shape]) => {
        const length = Buffer.byteLength(shape(example));
        const places = Array.from({ length: length + 1 }, (_, at) => at).filter((at) => at % step === 0);
        return places.flatMap((at) => (["y", "n", "w"] as const).map((way) => ({ name, shape, at, way })));
      });
      await side(cuts, 40, async ({ name, shape, at, way }) => {
        const ownPrompt = `${prompt} ${name} ${String(at).padStart(4, "0")} ${way}`;
        let end = 0;
        const act: (scene: { socket: Socket; generated: Generated }) => Promise<void> = async ({
          socket,
          generated,
        }) => {
          const body = shape(generated);
          end = endOfId(body, generated.id);
          // "w": a server that ends it as if it were whole.
          if (way === "w") await reply(socket, 200, Buffer.from(body).subarray(0, at));
          else await sendCut(socket, Buffer.from(body), at, way === "y");
        };
        service.plan(ownPrompt, { starts: [{ executes: true, act }] });
        const env = {
          VIDGEN_HOME: join(folder, name, `${at}-${way}`),
          VIDGEN_BASE_URL: service.baseUrl,
          VIDGEN_API_KEY: "key",
        };
        const { code, stdout, stderr } = await vidgen(["generate", ownPrompt, "--no-wait"], env);
        const [start] = service.oracle.startsOf(ownPrompt);
        const isAfter = at >= end;
        const isRight = code === 0 && stdout === `${start?.generated?.id}\n`;
        const isNone = code === 6 && stdout === "";
        counts[isAfter ? "after" : "before"]++;
        if (isAfter && isRight) counts.recovered++;
        if (!isRight && !isNone) counts.wrong++;
        if (isAfter ? !isRight : !isNone)
          faults.push(`${name}, byte ${at} of ${end}: exit ${code} ${stdout} ${stderr}`);
      });
      await service.close();
      return {
        figures:
          `${counts.after} cuts after the id: ${counts.recovered} recovered; ` +
          `${counts.before} before it: ${counts.wrong} wrong ids`,
        target: "all recovered, 0 wrong",
        faults,
      };
    }),
};

/** For its length: ids and prompts of all cuts are equally long. */
const example: Generated = {
  id: decoy,
  prompt: `${prompt} other ids around it 0000 y`,
  model: "wan-2.5",
  attempt: decoy,
  createdAt: "2026-01-01T00:00:00.000Z",
};
