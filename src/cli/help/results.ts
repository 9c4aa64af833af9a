/** What each command prints on stdout, and nothing else there; README's table of commands is tested against it. */
export const results: Readonly<Record<string, string>> = {
  generate: "the URL; with `-o` the file; with `--no-wait` the id",
  status: "id, status, URL",
  wait: "as `generate`",
  list: "a table",
  models: "a table",
  login: "nothing; with `--json` the base URL",
  logout: "nothing; with `--json` the base URL",
  serve: "its address",
  doctor: "one line a check, with the fix",
  completion: "a script",
  help: "the help",
};

/** What `-o` takes. */
export const places: readonly (readonly [place: string, effect: string])[] = [
  ["fox.mp4", "that file; one that exists is kept, unless --overwrite is given"],
  ["clips/", "a file in that folder, named after the prompt, the model and the id"],
  [".", "the same in the current folder"],
  [
    "{slug}-{n}.mp4",
    "a name made of {slug} of the prompt, {model}, {id}, {date}, and {n}, the first number that is free",
  ],
  ["-", "the video itself on stdout"],
];

/** The fields of `error` in the one document that an error is with `--json`. */
export const errorFields: readonly (readonly [name: string, meaning: string])[] = [
  ["code", "the name of the exit code"],
  ["message", "what happened, and whether it may have been charged"],
  ["hint", "what to do next, often a command; or null"],
  ["id", "the generation it is about, to go on with; or null"],
  ["http_status", "what the service answered with; or null"],
];
