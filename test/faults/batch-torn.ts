import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createMachine, createService, type Fault } from "../client/batch/machine.ts";
import { tinyMp4 } from "../mp4.ts";
import { type Goal, tally } from "./goal.ts";
import { inFolder } from "./work.ts";

type Service = ReturnType<typeof createService>;
type Machine = ReturnType<typeof createMachine>;
type Event = Parameters<NonNullable<Parameters<Machine["run"]>[1]>["onEvent"] & {}>[0];

/** How a batch of three rows dies right after a record of the second one. */
type Death = { fault?: Fault; isIt?(event: Event): boolean };

const isEnd = (event: Event) => event.event === "ended" && event.line === 2;

const deaths: Record<string, Death> = {
  intent: { fault: (_, accept) => accept() && new Promise(() => {}) },
  accepted: { isIt: (event) => event.event === "started" && event.line === 2 },
  delivered: { isIt: isEnd },
  refused: { fault: () => Response.json({ error: "no bears" }, { status: 400 }), isIt: isEnd },
  unknown: { fault: (_, accept) => accept() && new Response("oops", { status: 502 }), isIt: isEnd },
};

const foreign = '\n{"level":"info","message":"deployed"}\n';

/** What is left of the last record, broken at a byte; on a machine with the journal, or on one that has the results file alone. */
type Break = {
  name: string;
  isAlone: boolean;
  /** Whether that can be no crash: then the run is to stop. */
  stops(record: Buffer, at: number): boolean;
  broken(record: Buffer, at: number): Uint8Array | string;
};

const torn: Break["broken"] = (record, at) => record.subarray(0, at);
const cut: Break["broken"] = (record, at) => record.subarray(at);
const split: Break["broken"] = (record, at) => `${record.subarray(0, at)}${foreign}${record.subarray(at)}`;

const never = () => false;
const always = () => true;
/** Unless the record is whole, or gone. */
const isCut: Break["stops"] = ({ length }, at) => at > 0 && at < length - 1;

const breaks: Break[] = [
  { name: "torn", isAlone: false, stops: never, broken: torn },
  { name: "cut", isAlone: false, stops: isCut, broken: cut },
  { name: "a foreign line", isAlone: false, stops: always, broken: split },
  { name: "torn, without the journal", isAlone: true, stops: never, broken: torn },
  { name: "cut, without the journal", isAlone: true, stops: isCut, broken: cut },
];

const stopped = "stopped at the line";

/**
 * Goal 21: a results file whose last record is broken costs no row a second charge: what a crash may have left is passed over, anything else
 * stops the run. Planned at every byte; each new plan is run.
 */
export const batchTorn: Goal = {
  number: 21,
  title: "results file torn, cut or with foreign lines at every byte of its last record",
  run: ({ share }) =>
    inFolder(async (folder) => {
      const ends: string[] = [];
      const faults: string[] = [];
      let plans = 0;
      for (const [kind, death] of Object.entries(deaths)) {
        const service = createService({ renderMs: () => 20_000 });
        const machine = createMachine(service, { parent: folder });
        const { restore, before, record } = await die(machine, service, { kind, death });
        for (const { name, isAlone, stops, broken } of breaks) {
          const reset = () => {
            restore();
            if (isAlone) leaveAlone(machine, service, kind);
          };
          const seen = new Set<string>();
          reset();
          for (let at = 0; at < record.length; at += share === 1 ? 1 : 97) {
            writeFileSync(machine.results, Buffer.concat([before, Buffer.from(broken(record, at))]));
            const plan = await planOf(machine);
            plans++;
            if ((plan === stopped) !== stops(record, at)) faults.push(`${kind}, ${name}, at byte ${at}: ${plan}`);
            if (plan === stopped) continue;
            if (seen.has(plan) && at % 50 > 0) continue;
            seen.add(plan);
            const { end, fault } = await goOn(machine, service);
            ends.push(end);
            if (fault !== undefined) faults.push(`${kind}, ${name}, at byte ${at}: ${fault}`);
            reset();
          }
        }
      }
      const figures = `${plans} plans, ${ends.length} of them run: ${tally(ends)}; ${faults.length} not right`;
      return { figures, target: "goes on or stops as it should, nothing paid twice", faults };
    }),
};

/** What is to be done about each row. */
async function planOf(machine: Machine): Promise<string> {
  try {
    const batch = await machine.open(machine.rows("a", "b", "c"));
    await batch.close();
    return batch.rows.map(({ state }) => state.kind).join();
  } catch (error) {
    if (/Cannot read line/.test(String(error))) return stopped;
    throw error;
  }
}

/** Lets a batch die. `restore` brings back that moment; `before` is the results file without its last `record`. */
async function die(
  machine: Machine,
  service: Service,
  { kind, death: { fault, isIt } }: { kind: string; death: Death },
) {
  const copy = `${machine.folder}-copy`;
  let generations: Service["generations"] = [];
  await new Promise<void>((resolve) => {
    const onDeath = () => {
      machine.kill();
      cpSync(machine.folder, copy, { recursive: true });
      generations = service.generations.slice();
      resolve();
    };
    service.fault = (prompt, accept) => {
      if (prompt !== "b") return undefined;
      const answer = fault?.(prompt, accept);
      if (!isIt) onDeath();
      return answer;
    };
    void machine.run(machine.rows("a", "b", "c"), { onEvent: (event) => isIt?.(event) && onDeath() });
  });
  service.fault = undefined;
  // What the dead one has still under way in the folder ends.
  await service.clock.sleep(1);
  const text = readFileSync(`${copy}/shots.csv.results.jsonl`);
  const start = text.lastIndexOf(0x0a, text.length - 2) + 1;
  const record = text.subarray(start);
  if (!record.includes(`"kind":"${kind}"`)) throw new Error(`the last record is not ${kind}: ${record}`);
  const restore = () => {
    rmSync(machine.folder, { recursive: true });
    cpSync(copy, machine.folder, { recursive: true });
    service.generations.splice(0, Number.POSITIVE_INFINITY, ...generations);
  };
  return { restore, before: text.subarray(0, start), record };
}

/** Another machine has the results file alone. A row is sent after its first record is whole on the disk: where that is not, nothing was charged. */
function leaveAlone({ folder, results }: Machine, service: Service, kind: string): void {
  for (const name of readdirSync(folder))
    if (join(folder, name) !== results) rmSync(join(folder, name), { recursive: true });
  if (kind === "intent") service.generations.splice(1);
}

/** What has become of the rows, and what is wrong with that. */
async function goOn(machine: Machine, service: Service): Promise<{ end: string; fault?: string }> {
  const rows = machine.rows("a", "b", "c");
  const { statuses, batch } = await machine.run(rows);
  const { unknown, failed } = batch.plan;
  const done = rows.filter(
    ({ outputPath: place = "", record }) =>
      existsSync(place) && readFileSync(place).equals(Buffer.from(tinyMp4(record.prompt))),
  );
  const twice = rows.filter(({ record }) => service.charges(record.prompt) > 1);
  const end = `${done.length} done, ${unknown} unknown, ${failed} failed`;
  if (twice.length > 0) return { end, fault: `line ${twice[0]?.line} is charged twice` };
  if (done.length + unknown + failed !== rows.length) return { end, fault: `${end}: ${JSON.stringify(statuses)}` };
  return { end };
}
