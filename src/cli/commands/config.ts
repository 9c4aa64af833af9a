import { Argument, type CommandUnknownOpts } from "@commander-js/extra-typings";
import { endOfKey } from "../../connect/format.ts";
import { configPath } from "../../connect/keys.ts";
import { findServed } from "../../connect/local.ts";
import { findProject, listProjectValues } from "../../connect/project.ts";
import {
  checkOutputSetting,
  checkUsableUrl,
  findAllowedHttp,
  readSaved,
  type SettingName,
  saveSetting,
  settingNames,
  settingVariables,
} from "../../connect/settings.ts";
import { usage } from "../../errors.ts";
import { expandHome, type Io } from "../../io.ts";
import { findWarnings } from "../../protocol/fields.ts";
import { checkModel, defaultModel } from "../../protocol/models.ts";
import { findApiPathHint, isPlainHttp, withScheme } from "../../protocol/url.ts";
import { withDetails } from "../command.ts";
import type { Context } from "../context.ts";
import { noteOutputPath } from "../terminal/result.ts";
import { formatRows } from "../terminal/text.ts";

export function addConfig(program: CommandUnknownOpts, context: Context): void {
  const config = withDetails(
    program
      .command("config")
      .helpGroup("Set up:")
      .helpCommand(false)
      .summary("show and change the settings")
      .description(
        "Shows each setting, its value and its source: the environment, vidgen.json, the saved file or the default. Shows only the last characters of the API key; `vidgen login` changes it.",
      ),
    { examples: ["vidgen config", "vidgen config set model veo-3.1", "vidgen config unset output"] },
  );
  for (const add of [addList, addSet, addUnset]) add(config, context);
}

const nameArgument = () => new Argument("<setting>", "its name").choices(settingNames);

function addList(config: CommandUnknownOpts, { io, output }: Context): void {
  const command = config
    .command("list", { isDefault: true })
    .summary("show the settings")
    .description("Shows each setting, its value and its source.")
    .action(async () => {
      const rows = await findSettings(io);
      const cells = rows.map(({ setting, value, source }) => [setting, value ?? "", source ?? "not set"]);
      await output.result(await formatRows(["SETTING", "VALUE", "SOURCE"], cells, io), rows);
    });
  withDetails(command, { examples: ["vidgen config", "vidgen config list --json"] });
}

function addSet(config: CommandUnknownOpts, context: Context): void {
  const command = config
    .command("set")
    .summary("save a setting")
    .description("Saves a setting for all commands from now on. A flag or an environment variable overrides it.")
    .addArgument(nameArgument())
    .argument("<value>", "its value; separate several engines with spaces")
    .action((name, value) => set(name, value, context));
  withDetails(command, {
    examples: [
      "vidgen config set output clips/",
      "vidgen config set engine openrouter",
      "vidgen config set model ray-3",
    ],
  });
}

function addUnset(config: CommandUnknownOpts, { io, output }: Context): void {
  const command = config
    .command("unset")
    .summary("remove a saved setting")
    .description("Removes a saved setting, so that the default applies again.")
    .addArgument(nameArgument())
    .action(async (name) => {
      const wasSet = (await readSaved(io))[name] !== undefined;
      if (wasSet) await saveSetting(name, undefined, io);
      await output.result("", { ok: true, setting: name, was_set: wasSet });
      output.note(wasSet ? `Removed ${name} from ${configPath(io)}.` : `${name} was not set.`);
      noteVariable(name, { io, output });
    });
  withDetails(command, { examples: ["vidgen config unset model"] });
}

async function set(name: SettingName, typed: string, { io, output }: Context): Promise<void> {
  const value = await checkers[name](typed, io);
  const saved = await readSaved(io);
  const conflictingName = { engine: "base_url", base_url: "engine", model: undefined, output: undefined }[name];
  if (conflictingName !== undefined && saved[conflictingName as SettingName] !== undefined)
    throw usage(
      `${configPath(io)} already sets ${conflictingName}; ${name} cannot be saved beside it. Nothing was saved.`,
      `Run \`vidgen config unset ${conflictingName}\` first.`,
    );
  const path = await saveSetting(name, value, io);
  await output.result("", { ok: true, setting: name, value });
  output.note(`Saved ${name} = ${value} in ${path}.`);
  for (const warning of name === "model" ? findWarnings({ model: value }) : []) output.note(warning);
  if (name === "output") await noteOutputPath(value, output, io);
  const pathHint = name === "base_url" ? findApiPathHint(value) : undefined;
  if (pathHint !== undefined) output.note(pathHint);
  noteVariable(name, { io, output });
}

/** Return the value to save. Throw `usage` for an invalid value. */
const checkers: Readonly<Record<SettingName, (value: string, io: Io) => string | Promise<string>>> = {
  base_url: (value, io) => checkUsableUrl(withScheme(value), "base_url", io),
  model: checkModel,
  output: (value, io) => checkOutputSetting(expandHome(value, io), "output"),
  async engine(value) {
    const specs = value.trim().split(/\s+/);
    await findServed(specs);
    return specs.join(" ");
  },
};

function noteVariable(name: SettingName, { io, output }: Pick<Context, "io" | "output">): void {
  const overridingVariables = [settingVariables[name], ...(name === "engine" ? ["VIDGEN_BASE_URL"] : [])];
  for (const variable of overridingVariables) if (io.env[variable]) output.note(`${variable} is set and overrides it.`);
}

type ShownSetting = { setting: string; value: string | null; source: string | null };

/** The settings that the next command would use, with only the end of the key. */
async function findSettings(io: Io): Promise<ShownSetting[]> {
  const saved = await readSaved(io);
  const project = await findProject(io);
  const projectValues = project ? listProjectValues(project) : [];
  const find = (setting: SettingName, byDefault?: string): ShownSetting => {
    const variable = settingVariables[setting];
    if (io.env[variable]) return { setting, value: io.env[variable], source: variable };
    const [, value] = projectValues.find(([name]) => name === setting) ?? [];
    if (project && value !== undefined) return { setting, value, source: project.file };
    if (saved[setting] !== undefined) return { setting, value: saved[setting], source: configPath(io) };
    return { setting, value: byDefault ?? null, source: byDefault === undefined ? null : "default" };
  };
  const baseUrl = find("base_url");
  const engine = find("engine");
  // A saved engine is not used if a variable names a service (see `findEngineSetting`).
  const isEngineOverridden = engine.source === configPath(io) && io.env.VIDGEN_BASE_URL;
  const engineRow = isEngineOverridden
    ? { ...engine, value: null, source: `${engine.source}, overridden by VIDGEN_BASE_URL` }
    : engine;
  const allowed =
    baseUrl.value !== null && URL.canParse(baseUrl.value) && isPlainHttp(baseUrl.value)
      ? await findAllowedHttp(baseUrl.value, io)
      : undefined;
  const plainHttp = allowed && { setting: "allow_http", value: allowed.origin, source: allowed.source };
  return [
    baseUrl,
    ...(plainHttp ? [plainHttp] : []),
    findKey(baseUrl.value, saved.keys, io),
    find("model", defaultModel),
    find("output"),
    engineRow,
    ...(project ? projectValues.flatMap(([setting, value]) => showProjectValue(setting, value, project.file, io)) : []),
  ];
}

/**
 * A value of vidgen.json that is not among the settings above; model and output are among them, unless a
 * variable overrides them.
 */
function showProjectValue(setting: string, value: string, file: string, { env }: Io): ShownSetting[] {
  const variable = setting === "model" || setting === "output" ? settingVariables[setting] : undefined;
  if (variable === undefined) return [{ setting, value, source: file }];
  return env[variable] ? [{ setting, value, source: `${file}, overridden by ${variable}` }] : [];
}

function findKey(baseUrl: string | null, keys: Record<string, string> = {}, io: Io): ShownSetting {
  const setting = "api_key";
  const { VIDGEN_API_KEY } = io.env;
  if (VIDGEN_API_KEY) return { setting, value: `...${endOfKey(VIDGEN_API_KEY)}`, source: "VIDGEN_API_KEY" };
  const key = baseUrl !== null && URL.canParse(baseUrl) ? keys[new URL(baseUrl).origin] : undefined;
  return key
    ? { setting, value: `...${endOfKey(key)}`, source: configPath(io) }
    : { setting, value: null, source: null };
}
