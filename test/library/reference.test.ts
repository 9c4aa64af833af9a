import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";
import { wrapWords } from "../../src/cli/terminal/text.ts";

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
    // The page says what a call does, not which section of `api.md` it implements.
    comment: comments
      .join(" ")
      .replace(/ \(interface [\w. ]+\)/g, "")
      .replace(/\s+/g, " "),
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
