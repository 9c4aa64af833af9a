import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Field, fields, findValueFault, flagOf, wireValue } from "../../src/protocol/fields.ts";
import { connectAgent } from "../mcp/agent.ts";
import { createWorld, type World } from "../vidgen.ts";

/** A value that the field takes, and the service need not. */
function sampleOf(field: Field): string {
  const samples = ["8", "16:9", "https://example.com/a.png"];
  return samples.find((sample) => findValueFault(field, sample) === undefined) ?? "";
}

const lastBody = ({ requests }: World) =>
  JSON.parse(requests.findLast(({ method }) => method === "POST")?.body ?? "{}");
const flagged = fields.filter(({ flag, isLocalOnly }) => flag !== undefined && !isLocalOnly);
const localOnly = fields.filter(({ isLocalOnly }) => isLocalOnly);

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

test.each(localOnly)("$name is only for the local service: no other gets it, but with --set", async (field) => {
  const { name, argument = name, takes } = field;
  const url = "https://example.com/a.png";
  const flag = flagOf(field, "long");
  const world = await createWorld();
  const refused = { code: 2, stdout: "", stderr: expect.stringMatching(`nothing was sent.*--set ${name}=`) };
  expect(await world.vidgen("generate", "a fox", flag, url)).toMatchObject(refused);
  expect(await world.vidgen("generate", "a fox", flag, url, "--dry-run")).toMatchObject(refused);

  const rows = join(world.folder, "a.csv");
  await writeFile(rows, "prompt\na fox\n");
  const run = await world.vidgen("batch", rows, flag, url);
  expect(run).toMatchObject(refused);
  expect(run.stderr).toContain(`${flag} is only for --local`);
  await writeFile(rows, `prompt,${name}\na fox,${url}\n`);
  expect((await world.vidgen("batch", rows)).stderr).toContain(`line 2, column 2 (${name}): is only for --local`);

  const agent = await connectAgent(world);
  const given = { [argument]: takes === "images" ? [url] : url };
  expect(await agent.call("generate_video", { prompt: "a hare", ...given })).toMatchObject({ isError: true });
  await agent.leave();
  expect(world.requests).toEqual([]);

  const set = takes === "images" ? JSON.stringify([url]) : url;
  const sent = await world.vidgen("generate", "a fox", "--set", `${name}=${set}`, "--no-wait");
  expect(sent).toMatchObject({ code: 0, stderr: expect.stringContaining(`may not know the field "${name}"`) });
  const id = JSON.parse((await world.vidgen("list", "--json")).stdout)[0].id;
  expect(lastBody(world)).toMatchObject({ [name]: takes === "images" ? [url] : url });
  expect(await world.vidgen("again", id, "an owl", "--no-wait")).toMatchObject({ code: 0 });
  expect(lastBody(world)).toMatchObject({ prompt: "an owl", [name]: takes === "images" ? [url] : url });
});
