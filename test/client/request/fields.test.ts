import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Field, fields, findValueFault, flagOf, wireValue } from "../../../src/client/request/fields.ts";
import { connectAgent } from "../../mcp/agent.ts";
import { createWorld, type World } from "../../vidgen.ts";

/** A value that the field takes, and the service need not. */
function sampleOf(field: Field): string {
  const samples = ["8", "16:9", "https://example.com/a.png"];
  return samples.find((sample) => findValueFault(field, sample) === undefined) ?? "";
}

const lastBody = ({ requests }: World) =>
  JSON.parse(requests.findLast(({ method }) => method === "POST")?.body ?? "{}");
const flagged = fields.filter(({ flag }) => flag !== undefined);

test.each(flagged)(
  "$name is a flag of generate and batch, a column, and an argument of an agent's tool",
  async (field) => {
    const { name, flag: usage, argument = name, takes } = field;
    const sample = sampleOf(field);
    const flag = flagOf(field, "long");
    const wanted = { [name]: wireValue(field, sample) };
    const world = await createWorld();

    const dry = await world.vidgen("generate", "a fox", flag, sample, "--dry-run", "--json");
    expect(JSON.parse(dry.stdout).body).toMatchObject(wanted);

    await writeFile(join(world.folder, "a.csv"), "prompt\na fox\n");
    await world.vidgen("batch", join(world.folder, "a.csv"), flag, sample);
    expect(lastBody(world)).toMatchObject(wanted);

    await writeFile(join(world.folder, "b.csv"), `prompt,${name.replace(/[A-Z]/g, "_$&")}\nan owl,${sample}\n`);
    await world.vidgen("batch", join(world.folder, "b.csv"));
    expect(lastBody(world)).toMatchObject({ prompt: "an owl", ...wanted });

    const agent = await connectAgent(world);
    await agent.call("generate_video", { prompt: "a hare", [argument]: takes === "images" ? [sample] : sample });
    expect(lastBody(world)).toMatchObject({ prompt: "a hare", ...wanted });
    await agent.leave();

    const help = JSON.parse((await world.vidgen("help", "--json")).stdout);
    const flagsOf = (command: string) =>
      help.commands
        .find((each: { name: string }) => each.name === command)
        .flags.map((each: { usage: string }) => each.usage);
    expect(flagsOf("generate")).toContain(usage);
    expect(flagsOf("batch")).toContain(usage);
    expect((await world.vidgen("batch", "--help")).stdout.replace(/\s+/g, " ")).toContain(`${name}, `);
  },
);
