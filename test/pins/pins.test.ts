import { readFileSync } from "node:fs";
import ts from "typescript";
import { expect, test } from "vitest";
import { connectAgent } from "../mcp/agent.ts";
import { readDescription } from "../server/api/described.ts";
import { baseUrl, createTestService } from "../server/service.ts";
import { createWorld } from "../vidgen.ts";

// What others build on, as it is: a change of one of these files is a change for them, and belongs into the CHANGELOG. `vitest -u` writes them.

type Schema = Record<string, unknown>;

/** A JSON Schema in short: `?` is an optional field, `...` are others, which are taken; where `!` stands, others are refused. */
function shapeOf(schema: Schema | boolean | undefined): string {
  if (schema === undefined || typeof schema === "boolean") return "any";
  const { $ref, const: only, enum: choices, type, items, properties, required = [], additionalProperties } = schema;
  if ($ref) return String($ref).replace(/.*\//, "");
  if (only !== undefined) return JSON.stringify(only);
  if (choices) return (choices as unknown[]).map((each) => JSON.stringify(each)).join(" | ");
  const union = (schema.anyOf ?? schema.oneOf ?? schema.allOf) as Schema[] | undefined;
  if (union && !properties) return union.map(shapeOf).join(" | ");
  if (type === "array") return `(${shapeOf(items as Schema)})[]`;
  if (!properties && type !== "object") return [type ?? "any"].flat().join(" | ");
  const fields = Object.entries((properties ?? {}) as Record<string, Schema>).map(
    ([name, value]) => `${name}${(required as string[]).includes(name) ? "" : "?"}: ${shapeOf(value)}`,
  );
  const others = typeof additionalProperties === "object" ? [`...: ${shapeOf(additionalProperties as Schema)}`] : [];
  return `{ ${[...fields, ...others].join(", ")} }${additionalProperties === false ? "!" : ""}`;
}

test("the commands and their flags, what --json and --events print, the exit codes, and what the files of settings may have", async () => {
  const help = JSON.parse((await (await createWorld()).vidgen("help", "--json")).stdout);
  type Option = { usage: string; choices: string[] | null };
  const optionOf = ({ usage, choices }: Option) => `  ${usage}${choices ? ` (${choices.join(", ")})` : ""}`;
  const describe = ({ usage, flags, result, events, commands = [] }: typeof help): string[] => [
    usage,
    ...flags.map(optionOf),
    ...(result ? [`  --json: ${shapeOf(result)}`] : []),
    ...(events ? [`  --events: ${shapeOf(events)}`] : []),
    ...commands.flatMap(describe),
  ];
  const codes = help.exit_codes.map(({ code, name }: { code: number; name: string }) => `exit ${code}: ${name}`);
  const variables = help.environment.map(({ name }: { name: string }) => name);
  const files = [`serve --config: ${shapeOf(help.serve_config)}`, `vidgen.json: ${shapeOf(help.project)}`];
  const lines = [...describe(help), ...codes, ...variables, ...files];
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("cli.txt");
});

test("the tools of MCP", async () => {
  const { client, leave } = await connectAgent(await createWorld());
  const { tools } = await client.listTools();
  const lines = tools.flatMap(({ name, annotations, inputSchema, outputSchema }) => [
    `${name} ${JSON.stringify(annotations)}`,
    `  takes ${shapeOf(inputSchema)}`,
    `  returns ${shapeOf(outputSchema)}`,
  ]);
  await leave();
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("mcp.txt");
});

test("the API of the local service", async () => {
  const { paths, components } = await readDescription((await createTestService()).api, baseUrl);
  const mediaOf = (content: Record<string, { schema: Schema }> = {}) =>
    Object.entries(content).map(([type, { schema }]) => `    ${type}: ${shapeOf(schema)}`);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { parameters = [], requestBody, responses }]) => [
      `${method.toUpperCase()} ${path}`,
      ...parameters.map(({ name }) => `  ${name}`),
      ...mediaOf(requestBody?.content as Record<string, { schema: Schema }>),
      ...Object.entries(responses).flatMap(([status, reply]) => [
        `  ${status}`,
        ...("$ref" in reply ? [] : mediaOf(reply.content as Record<string, { schema: Schema }>)),
      ]),
    ]),
  );
  const schemas = Object.entries((components.schemas ?? {}) as Record<string, Schema>);
  const lines = [...operations, ...schemas.map(([name, schema]) => `${name}: ${shapeOf(schema)}`)];
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot("api.txt");
});

test.each(["index.d.cts", "ai-sdk.d.ts"])("the types of the library: %s", async (file) => {
  const text = readFileSync(new URL(`../../dist/${file}`, import.meta.url), "utf8");
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const printer = ts.createPrinter({ removeComments: true });
  const lines = source.statements.map((node) => printer.printNode(ts.EmitHint.Unspecified, node, source));
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot(`${file}.txt`);
});
