import { describeEngine, type EngineCheck, readCreditsPer, readEngineSettings } from "../../connect/engines.ts";
import { usage } from "../../errors.ts";
import type { Io } from "../../io.ts";
import { createMutex } from "../../mutex.ts";
import type { ServeConfig } from "../../server/config.ts";
import type { Engine } from "../../server/engines/engine.ts";
import type { RunningService, ServiceFolderOptions } from "../../server/serve.ts";
import type { Context } from "../context.ts";

/** The options of the engines, from flags or from the file of `--config`. */
type ServeEngineOptions = Parameters<typeof readEngineSettings>[0] & {
  creditsPer?: string[] | undefined;
  database: string | undefined;
  config: ServeConfig | undefined;
  /** Whether a flag was given, which wins over the file. */
  isTyped(flag: string): boolean;
};

type EngineFactory = Awaited<ReturnType<typeof createEngineFactory>>;

/** Returns `create`, for the engines of the flags or the file, and `reopen`, for an engine that an earlier process used. */
async function createEngineFactory(options: ServeEngineOptions, { io, output }: Context) {
  const { createEngines } = await import("../../server/engines/engines.ts");
  const { readOrigin } = await import("../../server/config.ts");
  const settings = readEngineSettings(options, io, {
    // A process of a shared database may make no videos itself.
    minJobs: options.database === undefined ? 1 : 0,
  });
  const common = { ...hideKeys(settings, output), onNote: output.note };
  return {
    create: (config: ServeConfig | undefined) =>
      createEngines({ ...common, engines: config?.engines ?? settings.engines }, io),
    /** Throws an error whose message continues the engine's name. */
    reopen(origin: Parameters<typeof readOrigin>[0], { isShared }: { isShared: boolean }) {
      const { key_env, key_file } = origin;
      // A user who can write to a shared database must not be able to send this machine's keys to another server.
      if (isShared && (key_env ?? key_file) !== undefined)
        throw usage("its key is named only in the --config file of an earlier process: start with that file");
      if (typeof key_env === "string" && !io.env[key_env]) throw usage(`its key is missing: ${key_env} is not set`);
      const readKey = (name: string) => (isShared && name === "VIDGEN_ENGINE_KEY" ? undefined : common.readKey(name));
      const engines = [readOrigin(origin)];
      // As with engines of the settings, no package is loaded from the current folder for an engine that a shared database names.
      const [engine] = createEngines({ ...common, readKey, engines, fromSettings: isShared, jobs: undefined }, io);
      if (!engine) throw new Error("there is no engine");
      return engine;
    },
  };
}

/** Hides each key that is read, also from a file: those in the environment are already hidden. */
function hideKeys(settings: ReturnType<typeof readEngineSettings>, { hide }: Context["output"]) {
  const hideKey = <Key extends string | undefined>(key: Key) => {
    if (key !== undefined) hide(key);
    return key;
  };
  return {
    ...settings,
    readKey: (name: string) => hideKey(settings.readKey(name)),
    readKeyFile: (path: string, label: string) => hideKey(settings.readKeyFile(path, label)),
  };
}

/** Opens the engines of a `serve`. Throws `usage` and `auth`, as `createEngines` does. */
export async function openEngines(options: ServeEngineOptions, context: Context) {
  const factory = await createEngineFactory(options, context);
  const engines = factory.create(options.config);
  const { reopen } = factory;
  if (!options.config) return { engines, reopen, reload: undefined, attach() {} };
  return {
    engines,
    reopen,
    ...createReload({ ...options, config: options.config }, { factory, engines }, context),
  };
}

type Reload = NonNullable<ServiceFolderOptions["reload"]>;

/** Returns a function that reads the file again, once a service is attached, and the function that attaches the service. */
function createReload(
  { config: startConfig, isTyped, ...options }: ServeEngineOptions & { config: ServeConfig },
  { factory, engines }: { factory: EngineFactory; engines: readonly Engine[] },
  context: Context,
) {
  const { io, output } = context;
  const oneAtATime = createMutex();
  let currentEngines = engines;
  let attach: (service: Pick<RunningService, "updateEngines">) => void = () => {};
  const attachedService = new Promise<Pick<RunningService, "updateEngines">>((resolve) => {
    attach = resolve;
  });
  const readAgain = async () => {
    const { readConfig } = await import("../../server/config.ts");
    const config = readConfig(startConfig.file);
    try {
      const created = factory.create(config);
      // An unchanged engine keeps what it has learned about its server.
      const next = created.map(
        (engine) => currentEngines.find(({ identity }) => identity === engine.identity) ?? engine,
      );
      const prices = isTyped("creditsPer") ? options.creditsPer : config.options.creditsPer;
      return { config, next, creditsPer: readCreditsPer(prices ?? [], next) };
    } catch (error) {
      if (error instanceof Error) error.message = config.explain(error.message);
      throw error;
    }
  };
  const reload: Reload = () =>
    oneAtATime(async () => {
      const { config, next, creditsPer } = await readAgain();
      const before = currentEngines;
      currentEngines = next;
      await (await attachedService).updateEngines({ engines: next, creditsPer });
      const reloaded = {
        engines: next.map(({ name }) => name),
        added: namesOnlyIn(next, before),
        draining: namesOnlyIn(before, next),
        restart: changedFields(startConfig, config),
      };
      output.note(reloadLine(startConfig.file, reloaded));
      void noteChecks(
        next.filter((engine) => !before.includes(engine)),
        next,
        context,
      );
      return reloaded;
    });
  io.onHangUp(
    () =>
      void reload().catch((error) => {
        output.note(`The engines were not changed: ${error.message}`);
      }),
  );
  return { reload, attach };
}

function namesOnlyIn(engines: readonly Engine[], otherEngines: readonly Engine[]): string[] {
  const names = new Set(engines.filter(({ isSimulation }) => !isSimulation).map(({ name }) => name));
  for (const { name } of otherEngines) names.delete(name);
  return [...names];
}

/** The changed fields that take effect only when a process starts. */
function changedFields({ settings: before }: ServeConfig, { settings: now }: ServeConfig): string[] {
  const fields = [...new Set([...Object.keys(before), ...Object.keys(now)])].filter((field) => field !== "credits_per");
  return fields.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(now[field]));
}

function reloadLine(file: string, { engines, added, draining, restart }: Awaited<ReturnType<Reload>>): string {
  const parts = [
    `${engines.length} ${engines.length === 1 ? "engine" : "engines"}`,
    added.length > 0 && `new: ${added.join(", ")}`,
    draining.length > 0 && `no longer used: ${draining.join(", ")}`,
    restart.length > 0 && `a restart is needed for ${restart.join(", ")}`,
  ];
  return `Read ${file} again: ${parts.filter(Boolean).join("; ")}.`;
}

/** Prints for each new engine whether it can be used. */
async function noteChecks(engines: readonly Engine[], all: readonly Engine[], { io, output }: Context): Promise<void> {
  const real = engines.filter(({ isSimulation, concurrency }) => !isSimulation && concurrency > 0);
  await Promise.all((await startChecks(real, io)).map(async (check) => output.note(checkLine(await check, all))));
}

/** The JSON Schema of the file of `serve --config`. */
export async function loadConfigSchema(): Promise<object> {
  const { configSchema } = await import("../../server/config.ts");
  return (await import("zod")).toJSONSchema(configSchema);
}

/** Starts to check each engine, while the service already runs. */
export async function startChecks(engines: readonly Engine[], io: Io): Promise<Promise<EngineCheck>[]> {
  const { checkEngine } = await import("../../server/engines/check.ts");
  return engines.map((engine) => checkEngine(engine, io, io.signal));
}

export function checkLine(check: EngineCheck, all: readonly Pick<EngineCheck, "models">[]): string {
  const line = describeEngine(check, all);
  return check.error === null ? line : `${line}; its generations wait until it can be used.`;
}
