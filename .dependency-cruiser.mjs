// Who may import whom, type imports included; `npm test` runs it. CONTRIBUTING says why.
const severity = "error";
const shared = "^src/(errors|lease|io)\\.ts$";
const wire = "^src/client/(schema|models|fields|id|mp4|http|naming)\\.ts$";
const doors = "^src/cli/(commands/serve|serve/launch|local)\\.ts$";

export default {
  forbidden: [
    { name: "no-circle", severity, from: {}, to: { circular: true } },
    {
      name: "client-knows-no-house",
      severity,
      from: { path: "^src/client/" },
      to: { path: "^src/", pathNot: ["^src/client/", shared] },
    },
    {
      name: "server-knows-the-wire",
      severity,
      from: { path: "^src/server/" },
      to: { path: "^src/", pathNot: ["^src/server/", wire, shared] },
    },
    {
      name: "mcp-knows-no-command",
      severity,
      from: { path: "^src/mcp/" },
      to: { path: "^src/cli/commands/" },
    },
    {
      name: "cli-and-mcp-reach-the-server-through-their-doors",
      severity,
      from: { path: "^src/(cli|mcp)/", pathNot: doors },
      to: { path: "^src/server/" },
    },
    {
      name: "doors-load-the-server-when-it-is-needed",
      severity,
      from: { path: doors },
      to: { path: "^src/server/", dependencyTypesNot: ["dynamic-import", "type-only"] },
    },
  ],
  options: { tsPreCompilationDeps: true, doNotFollow: { path: "node_modules" } },
};
