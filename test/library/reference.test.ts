import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";
import { wrapWords } from "../../src/cli/terminal/text.ts";
import { readTables } from "../../src/docs.ts";

// The published types: their comments are the text of the page's section "Each call". `vitest -u` writes it there.

const page = new URL("../../src/docs/library.md", import.meta.url);
const calls = ["index.d.cts", "ai-sdk.d.ts"].flatMap(listCalls);

type Call = { name: string; parameters: string; comment: string };

/** The functions of a file of `dist`, and the methods of the client. */
function listCalls(file: string): Call[] {
  const text = readFileSync(new URL(`../../dist/${file}`, import.meta.url), "utf8");
  const { statements } = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  return statements.flatMap((node) => {
    if (ts.isFunctionDeclaration(node)) return describeCall(node, "");
    return ts.isTypeAliasDeclaration(node) && node.name.text === "Client" ? listMethods(node.type, "") : [];
  });
}

function listMethods(type: ts.TypeNode | undefined, owner: string): Call[] {
  if (!type || !ts.isTypeLiteralNode(type)) return [];
  return type.members.flatMap((member) => {
    if (ts.isMethodSignature(member)) return describeCall(member, owner);
    return ts.isPropertySignature(member) ? listMethods(member.type, `${owner}${member.name.getText()}.`) : [];
  });
}

function describeCall(node: ts.FunctionDeclaration | ts.MethodSignature, owner: string): Call {
  const comments = ts.getJSDocCommentsAndTags(node).map(({ comment }) => ts.getTextOfJSDocComment(comment) ?? "");
  return {
    name: `${owner}${node.name?.getText()}`,
    parameters: node.parameters.map(({ name }) => name.getText()).join(", "),
    comment: comments.join(" ").replace(/\s+/g, " "),
  };
}

test("each call has a comment that names its errors and what is charged", () => {
  // A further form of a call may have its comment above the first one.
  const forms = calls.filter(({ name, comment }, index) => comment !== "" || calls[index - 1]?.name !== name);
  expect(forms.map(({ name }) => name)).toContain("generations.resume");
  for (const { name, comment } of forms) {
    expect(comment, name).toMatch(/\b(rejects?|throws)\b/i);
    expect(comment, name).toMatch(/\b(costs|charged?|paid)\b/i);
  }
});

test("the page has each call, in the words of its comment", async () => {
  const described = calls.filter(({ comment }) => comment !== "");
  const paragraphs = described.map(({ name, parameters, comment }) => `\`${name}(${parameters})\`: ${comment}`);
  const section = paragraphs.map((paragraph) => `${wrapWords(paragraph, 82)}\n\n`).join("");
  const [before, , after] = readFileSync(page, "utf8").split(/(?<=^## Each call\n\n)([\s\S]*?)(?=^## )/m);
  await expect(`${before}${section}${after}`).toMatchFileSnapshot(fileURLToPath(page));
});

test("the page has each field of a record", () => {
  const [, section = ""] = readFileSync(page, "utf8").split("## What the journal has\n");
  const [rows = []] = readTables(section);
  const types = readFileSync(new URL("../../dist/index.d.cts", import.meta.url), "utf8");
  const [, record = ""] = /type StartRecord = \{([\s\S]*?)\n\};/.exec(types) ?? [];
  expect(rows.map(({ field }) => field)).toEqual(record.match(/^ {4}\w+(?=\??: )/gm)?.map((name) => name.trim()));
});

test("each type that the library exports is declared once, and each of its fields has a comment", () => {
  const sources = [
    "src/index.ts",
    "src/errors.ts",
    ...["library", "protocol", "client", "cli", "mcp"].flatMap(listSources),
  ];
  const text = sources.map((path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")).join("\n");
  const types = readFileSync(new URL("../../dist/index.d.cts", import.meta.url), "utf8");
  const { statements } = ts.createSourceFile("index.d.cts", types, ts.ScriptTarget.Latest, true);
  const declared = statements.filter((node) => ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node));
  expect(declared.map(({ name }) => name.text)).toContain("GenerateOptions");
  for (const node of declared) {
    const name = node.name.text;
    expect(text.match(new RegExp(`^(export )?(type|interface) ${name}\\b`, "gm")), name).toHaveLength(1);
    expect(ts.getJSDocCommentsAndTags(node), name).toHaveLength(1);
    expect(listUncommented(node), name).toEqual([]);
  }
});

function listSources(folder: string): string[] {
  const all = readdirSync(new URL(`../../src/${folder}`, import.meta.url), { recursive: true, encoding: "utf8" });
  return all.filter((path) => path.endsWith(".ts")).map((path) => `src/${folder}/${path}`);
}

/** The fields without a comment, but those that a type narrows or that belong to a field. */
function listUncommented(node: ts.Node): string[] {
  if (ts.isPropertySignature(node)) {
    const isLiteral = node.type !== undefined && ts.isLiteralTypeNode(node.type);
    return isLiteral || ts.getJSDocCommentsAndTags(node).length > 0 ? [] : [node.name.getText()];
  }
  return ts.isMethodSignature(node) ? [] : node.getChildren().flatMap(listUncommented);
}
