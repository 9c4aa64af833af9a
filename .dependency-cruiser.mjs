// Who may import whom, type imports included; `npm test` runs it. ARCHITECTURE has the picture.
const severity = "error";
const loose = "^src/(errors|lease|io|shell|abort|mutex|address-space|reply-limit)\\.ts$";
const protocol = "^src/protocol/";
const shared = `${protocol}|^src/video/|${loose}`;
// The AI SDK asks for a video in one way, of an engine and of the library.
const sdk = "^src/server/engines/(frame-size|ai-sdk/video-model)\\.ts$";
// What every room of the server says: problems, for its owner, and traces, for its requests.
const reports = "^src/server/observe/(problem|trace)\\.ts$";
const doors = "^src/(cli/commands/serve|cli/serve/(accounts|database|engines|launch)|connect/local)\\.ts$";

/** The files of a house import nothing else of `src/`. */
const only = (name, house, ...others) => ({
  name,
  severity,
  from: { path: house },
  to: { path: "^src/", pathNot: [house, ...others] },
});

/** The files of a room do not import those of others. */
const not = (name, room, others) => ({ name, severity, from: { path: room }, to: { path: others } });

export default {
  forbidden: [
    { name: "no-circle", severity, from: {}, to: { circular: true } },
    only("protocol-is-the-ground", protocol, loose),
    only("video-knows-the-protocol", "^src/video/", protocol, loose),
    // Inside of the client no arrow runs back up.
    only("http-is-the-ground-of-the-client", "^src/client/http/", shared),
    only("request-knows-http", "^src/client/request/", "^src/client/http/", shared),
    only("ledger-knows-http", "^src/client/ledger/", "^src/client/(request|http)/", shared),
    only("save-knows-the-ledger", "^src/client/save/", "^src/client/(ledger|request|http)/", shared),
    only("film-knows-no-generation", "^src/client/film/", "^src/client/(save|ledger|request|http)/", shared),
    only(
      "generation-knows-no-batch",
      "^src/client/generation/",
      "^src/client/(film|save|ledger|request|http)/",
      shared,
    ),
    only("client-knows-no-house", "^src/client/", shared),
    only("connect-is-below-the-front-ends", "^src/connect/", "^src/client/", "^src/server/", shared),
    only("mcp-knows-no-command-line", "^src/mcp/", "^src/(connect|client)/", shared),
    only("library-knows-no-command-line", "^src/(index|ai-sdk|library/)", "^src/(connect|client)/", sdk, shared),
    // Inside of the server neither: its rooms from the page down.
    not("api-knows-no-page", "^src/server/api/", "^src/server/page/"),
    not("queue-knows-no-routes", "^src/server/queue/", "^src/server/(page|api)/"),
    not("http-knows-no-engine", "^src/server/(http|outbound)/", "^src/server/(callbacks|engines|media)/"),
    not("engines-know-no-callbacks", "^src/server/(engines|media)/", "^src/server/callbacks/"),
    not("rooms-know-no-queue", "^src/server/(callbacks|media|engines|http|outbound)/", "^src/server/(page|api|queue)/"),
    only("observe-knows-no-room", "^src/server/observe/", shared),
    only("store-knows-no-room", "^src/server/store/", reports, shared),
    not("reads-know-no-database", "^src/server/store/(reads/|rules/|[^/]+$)", "^src/server/store/(sqlite|postgres)/"),
    only("server-knows-no-client", "^src/server/", shared),
    {
      name: "servers-and-agents-are-reached-through-their-commands",
      severity,
      from: { path: "^src/(cli|connect)/", pathNot: [doors, "^src/cli/commands/mcp\\.ts$"] },
      to: { path: "^src/(server|mcp)/" },
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
