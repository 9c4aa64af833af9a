import { readdirSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { dirname, join } from "node:path/posix";
import ts from "typescript";
import { expect, test } from "vitest";

/** What a file loads when it runs: `isStatic` with the file itself, else only when an `import()` is reached. */
type Import = { from: string; isStatic: boolean };

type Rule = { files: RegExp; may: RegExp; mayLater?: RegExp };

/** The first rule that fits a file says which files of ours it may load; `mayLater` adds what it may load by `import()` alone. */
const rules: Rule[] = [
  { files: /^bin\//, may: /^(package\.json|\(computed\))$/ },
  { files: /^src\/cli\.ts$/, may: /^src\/(main|io)\.ts$/ },
  { files: /^src\/main\.ts$/, may: /^src\/((program|errors|misuse)|terminal\/output)\.ts$/ },
  { files: /^src\/program\.ts$/, may: /^src\/directives\.ts$/, mayLater: /^src\/commands\// },
  {
    files: /^src\/commands\/serve\.ts$/,
    may: /^src\/((generations|api|server|terminal)\/|(settings|errors|result|session|local|storage)\.ts$)/,
  },
  {
    files: /^src\/commands\//,
    may: /^src\/((generations|api|doctor|help|completion|terminal)\/|(settings|errors|form|result|saved|session|local|storage|similar)\.ts$)/,
  },
  {
    files: /^src\/(session|result)\.ts$/,
    may: /^src\/((api|generations|terminal)\/|(errors|local|settings|storage)\.ts$)/,
  },
  { files: /^src\/saved\.ts$/, may: /^src\/((generations|terminal)\/|session\.ts$)/ },
  { files: /^src\/form\.ts$/, may: /^src\/((api|generations|terminal)\/|session\.ts$)/ },
  { files: /^src\/local\.ts$/, may: /^src\/(errors|storage)\.ts$/, mayLater: /^src\/server\// },
  {
    files: /^src\/terminal\//,
    may: /^src\/(errors|terminal\/(?!inquirer)\w+)\.ts$/,
    mayLater: /^src\/terminal\/inquirer\.ts$/,
  },
  { files: /^src\/storage\.ts$/, may: /^src\/(errors|settings)\.ts$/ },
  { files: /^src\/doctor\//, may: /^src\/((doctor|api|generations)\/|(errors|local|settings|storage)\.ts$)/ },
  { files: /^src\/io\.ts$/, may: /^src\/errors\.ts$/, mayLater: /^src\/http\/fetch\.ts$/ },
  { files: /^src\/http\//, may: /^src\/http\/(blocks|body|undici)/, mayLater: /^src\/http\/(proxy|decode)\.ts$/ },
  { files: /^src\/(misuse|settings)\.ts$/, may: /^src\/errors\.ts$/ },
  // Plain data and plain rules: they may be loaded at start-up, and by anybody.
  { files: /^src\/(errors|directives|similar)\.ts$/, may: /^$/ },
  { files: /^src\/completion\//, may: /^src\/completion\// },
  { files: /^src\/help\//, may: /^src\/(help\/|(errors|directives)\.ts$)/ },
  { files: /^src\/generations\//, may: /^src\/((api|generations)\/|errors\.ts$)/ },
  { files: /^src\/api\//, may: /^src\/(api\/|(errors|similar)\.ts$)/ },
  { files: /^src\/server\//, may: /^src\/(server\/|api\/(schema|models)\.ts$)/ },
  {
    files: /^src\/library\.ts$/,
    may: /^src\/((api|generations)\/|(errors|io|settings|terminal\/output)\.ts$)/,
  },
  { files: /^src\/index\.ts$/, may: /^src\/(?!commands\/|server\/)/ },
];

/** What loads only when it is needed, since `--help` must not pay for it. */
const heavy = ["undici", "conf", "zod", "ora", "chalk", "@inquirer/prompts"];
const startUp = /^src\/(main|program|errors|io|misuse|directives|terminal\/(output|spinner|terminal))\.ts$/;

const globals = ["console", "setTimeout", "setInterval", "setImmediate", "fetch", "performance"];
const worldModules = ["timers", "timers/promises", "perf_hooks", "console"];

/** Everything in a source text that breaks a rule, in words. */
function breaches(path: string, text: string): string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const imports = importsOf(source);
  return [...brokenLayers(path, imports), ...brokenPackages(path, imports), ...brokenWorld(path, source, imports)];
}

function brokenLayers(path: string, imports: Import[]): string[] {
  const rule = rules.find((rule) => rule.files.test(path));
  if (!rule) return [`${path} has no rule: say which layer it belongs to`];
  return imports
    .map(({ from, isStatic }) => ({ target: resolve(path, from), isStatic }))
    .filter(({ target }) => target !== undefined)
    .filter(({ target = "", isStatic }) => !rule.may.test(target) && (isStatic || !rule.mayLater?.test(target)))
    .map(({ target }) => `${path} may not import ${target}`);
}

function brokenPackages(path: string, imports: Import[]): string[] {
  const found: string[] = [];
  for (const { from, isStatic } of imports) {
    if (isStatic && startUp.test(path) && heavy.includes(packageOf(from)))
      found.push(`${path} may load ${from} only when it is needed`);
    if (packageOf(from) === "commander" && !/^src\/(main|program)\.ts$/.test(path))
      found.push(`${path} may not import commander`);
    if (path === "src/program.ts" && isBuiltin(from) && !/^node:(fs|path)$/.test(from))
      found.push(`${path} may not import ${from}`);
  }
  return found;
}

function brokenWorld(path: string, source: ts.SourceFile, imports: Import[]): string[] {
  if (path === "src/io.ts") return [];
  const modules = imports.map(({ from }) => from.replace(/^node:/, ""));
  const found = modules.filter((name) => worldModules.includes(name)).map((name) => `${path} may not import ${name}`);
  if (path.startsWith("bin/")) return found;
  if (modules.includes("process")) found.push(`${path} may not import process`);
  visit(source, (node) => {
    if (ts.isIdentifier(node) && [...globals, "process"].includes(node.text) && isGlobal(node))
      found.push(`${path} may not say ${node.text}`);
    if (ts.isPropertyAccessExpression(node) && /^(Date\.now|globalThis\..+)$/.test(node.getText()))
      found.push(`${path} may not say ${node.getText()}`);
    if (ts.isNewExpression(node) && node.expression.getText() === "Date" && !node.arguments?.length)
      found.push(`${path} may not say new Date()`);
  });
  return found;
}

/** Run-time imports: types are gone by then. `import { type A }` is not, it still loads its file (`verbatimModuleSyntax`). */
function importsOf(source: ts.SourceFile): Import[] {
  const found: Import[] = [];
  visit(source, (node) => {
    const isStatic = ts.isImportDeclaration(node) || ts.isExportDeclaration(node);
    if (isStatic && node.moduleSpecifier && ts.isStringLiteral(node.moduleSpecifier) && !isTypeOnly(node))
      found.push({ from: node.moduleSpecifier.text, isStatic });
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [from] = node.arguments;
      found.push({ from: from && ts.isStringLiteral(from) ? from.text : "(computed)", isStatic });
    }
    if (ts.isCallExpression(node) && node.expression.getText() === "require") {
      const [from] = node.arguments;
      found.push({ from: from && ts.isStringLiteral(from) ? from.text : "(computed)", isStatic: true });
    }
  });
  return found;
}

function isTypeOnly(node: ts.ImportDeclaration | ts.ExportDeclaration): boolean {
  return ts.isImportDeclaration(node) ? node.importClause?.isTypeOnly === true : node.isTypeOnly;
}

/** The file of ours that an import names; `undefined` for a package. The bin's are those that `dist` is built from. */
function resolve(path: string, from: string): string | undefined {
  if (from === "(computed)") return from;
  if (!from.startsWith(".")) return undefined;
  return join(dirname(path), from).replace(/^dist\/(.*)\.cjs$/, "src/$1.ts");
}

function packageOf(from: string): string {
  return /^(@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? from;
}

function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  if (ts.isTypeNode(node)) return;
  see(node);
  ts.forEachChild(node, (child) => visit(child, see));
}

/** Whether a name stands for the global of that name, as against a property, a parameter or a variable. */
function isGlobal(name: ts.Identifier): boolean {
  const { parent } = name;
  if (ts.isPropertyAccessExpression(parent) && parent.name === name) return false;
  if (ts.isBindingElement(parent) && parent.initializer !== name) return false;
  if (ts.isImportSpecifier(parent) || ts.isImportClause(parent) || ts.isExportSpecifier(parent)) return false;
  const declares = "name" in parent && parent.name === name;
  if (declares && !ts.isShorthandPropertyAssignment(parent)) return false;
  for (let at: ts.Node = name; at.parent; at = at.parent) if (namesIn(at.parent).includes(name.text)) return false;
  return true;
}

/** The names that a function's parameters or a block's statements declare. */
function namesIn(scope: ts.Node): string[] {
  if (ts.isFunctionLike(scope)) return scope.parameters.flatMap(({ name }) => namesOf(name));
  if (!ts.isBlock(scope) && !ts.isSourceFile(scope)) return [];
  return scope.statements.flatMap((statement) => {
    if (ts.isVariableStatement(statement))
      return statement.declarationList.declarations.flatMap(({ name }) => namesOf(name));
    if (ts.isFunctionDeclaration(statement) && statement.name) return [statement.name.text];
    return [];
  });
}

function namesOf(name: ts.BindingName): string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) => (ts.isOmittedExpression(element) ? [] : namesOf(element.name)));
}

const root = new URL("..", import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const files = ["src", "bin"].flatMap((folder) =>
  readdirSync(new URL(folder, root), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.c?[jt]s$/.test(name))
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`),
);

/** The packages that loading a file loads, and those of every file that it loads. */
function packagesReached(path: string, seen = new Set<string>()): string[] {
  if (seen.has(path)) return [];
  seen.add(path);
  const imports = importsOf(ts.createSourceFile(path, read(path), ts.ScriptTarget.ESNext, true));
  const loaded = imports.filter(({ from, isStatic }) => isStatic && !isBuiltin(from)).map(({ from }) => from);
  return loaded.flatMap((from) => {
    const target = resolve(path, from);
    return target === undefined ? [packageOf(from)] : packagesReached(target, seen);
  });
}

test("the files are found", () => {
  expect(files).toEqual(
    expect.arrayContaining(["bin/vidgen.cjs", "src/main.ts", "src/server/engines/preview/font.ts"]),
  );
});

test.each(files)("%s keeps to its layer", (path) => {
  expect(breaches(path, read(path))).toEqual([]);
});

test.each(["src/main.ts", "src/io.ts"])("%s loads commander at the most", (path) => {
  expect(packagesReached(path).filter((name) => name !== "commander")).toEqual([]);
});

test("loading the local service does reach zod: the walk sees packages", () => {
  expect(packagesReached("src/server/app.ts")).toContain("zod");
  expect(packagesReached("src/session.ts")).not.toContain("zod");
});

test.each([
  ["bin/vidgen.cjs", 'require("../dist/settings.cjs")', "src/settings.ts"],
  ["src/main.ts", 'import { systemIo } from "./io.ts"', "src/io.ts"],
  ["src/program.ts", 'import { generate } from "./commands/generate.ts"', "src/commands/generate.ts"],
  ["src/program.ts", 'await import("./settings.ts")', "src/settings.ts"],
  ["src/program.ts", 'import { homedir } from "node:os"', "node:os"],
  ["src/commands/wait.ts", 'import { list } from "./list.ts"', "src/commands/list.ts"],
  ["src/commands/wait.ts", 'await import("../server/app.ts")', "src/server/app.ts"],
  ["src/commands/wait.ts", 'export * from "../program.ts"', "src/program.ts"],
  ["src/commands/serve.ts", 'import { wait } from "./wait.ts"', "src/commands/wait.ts"],
  ["src/session.ts", 'import { createApp } from "./server/app.ts"', "src/server/app.ts"],
  ["src/local.ts", 'import { createApp } from "./server/app.ts"', "src/server/app.ts"],
  ["src/local.ts", 'await import("./commands/serve.ts")', "src/commands/serve.ts"],
  ["src/terminal/prompts.ts", 'import { startForm } from "../form.ts"', "src/form.ts"],
  ["src/terminal/prompts.ts", 'import { input } from "./inquirer.ts"', "src/terminal/inquirer.ts"],
  ["src/settings.ts", 'import { parseJson } from "./api/schema.ts"', "src/api/schema.ts"],
  ["src/terminal/output.ts", 'import { folders } from "../settings.ts"', "src/settings.ts"],
  ["src/generations/start.ts", 'import { folders } from "../settings.ts"', "src/settings.ts"],
  ["src/generations/start.ts", 'import { systemIo } from "../io.ts"', "src/io.ts"],
  ["src/api/client.ts", 'import { start } from "../generations/start.ts"', "src/generations/start.ts"],
  ["src/server/app.ts", 'import { createClient } from "../api/client.ts"', "src/api/client.ts"],
  ["src/server/engines/engine.ts", 'await import("../../settings.ts")', "src/settings.ts"],
  ["src/server/app.ts", 'import { usage } from "../errors.ts"', "src/errors.ts"],
  ["src/io.ts", 'import { plain } from "./terminal/output.ts"', "src/terminal/output.ts"],
  ["src/errors.ts", 'import { plain } from "./terminal/output.ts"', "src/terminal/output.ts"],
  ["src/index.ts", 'export { generate } from "./commands/generate.ts"', "src/commands/generate.ts"],
  ["src/library.ts", 'import { openSession } from "./session.ts"', "src/session.ts"],
  ["src/index.ts", 'export { createService } from "./server/service.ts"', "src/server/service.ts"],
  ["src/api/client.ts", 'import { type Wish } from "../generations/request.ts"', "src/generations/request.ts"],
  ["src/api/client.ts", "await import(name)", "(computed)"],
  ["src/api/client.ts", 'import { Command } from "commander"', "commander"],
  ...heavy.map((name) => ["src/terminal/output.ts", `import x from "${name}"`, name]),
  ["src/terminal/output.ts", 'import { z } from "zod/mini"', "zod/mini"],
  ["src/stray.ts", "", "no rule"],
])("%s: %s is reported", (path, text, said) => {
  expect(breaches(path, text).join("\n")).toContain(said);
});

test.each([
  ["src/main.ts", 'import type { Io } from "./io.ts"'],
  ["src/main.ts", 'export type { Io } from "./io.ts"'],
  ["src/main.ts", 'type Prompts = typeof import("./settings.ts")'],
  ["src/main.ts", 'let io: import("./io.ts").Io'],
  ["src/program.ts", 'await import("./commands/generate.ts")'],
  ["src/local.ts", 'await import("./server/service.ts")'],
  ["src/commands/serve.ts", 'import { listen } from "../server/listen.ts"'],
  ["src/terminal/output.ts", 'await import("chalk")'],
  ["src/api/schema.ts", 'import * as z from "zod"'],
])("%s: %s is allowed", (path, text) => {
  expect(breaches(path, text)).toEqual([]);
});

test.each([
  "process.exit(1)",
  'import process from "node:process"',
  'import { exit } from "process"',
  'import { setTimeout as sleep } from "node:timers/promises"',
  'console.log("x")',
  "const at = Date.now()",
  "const at = new Date()",
  "setTimeout(() => {}, 5)",
  "const later = setInterval",
  "setImmediate(() => {})",
  "performance.now()",
  'await fetch("http://127.0.0.1")',
  'globalThis.fetch("http://127.0.0.1")',
  "const io = { fetch }",
  "function f({ get = fetch }) { return get }",
  "function f(fetch) { return fetch }\nfetch(1)",
])("%s is reported anywhere but in io.ts", (text) => {
  expect(breaches("src/api/client.ts", text)).not.toEqual([]);
  expect(breaches("src/io.ts", text)).toEqual([]);
});

test.each([
  '"process.exit(1)" // console.log(Date.now())',
  "io.fetch(url)",
  "const { fetch } = options; fetch(url)",
  "function f(fetch) { return () => fetch(url) }",
  "const fetch = async () => {}; const io = { fetch }",
  "const io = { fetch: 1, now() {}, process: 2 }",
  "io.process.console.performance()",
  "type Get = typeof fetch",
  "new Date(0)",
])("%s is no breach", (text) => {
  expect(breaches("src/api/client.ts", text)).toEqual([]);
});
