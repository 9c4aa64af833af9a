export type Variable = {
  name: string;
  /** The flag that goes before it. */
  flag: string | null;
  meaning: string;
};

/** Every variable that has a say, vidgen's own first; README's table holds those. Tests compare them with what the code reads. */
export const variables: readonly Variable[] = [
  {
    name: "VIDGEN_API_KEY",
    flag: null,
    meaning: "the API key; there is no flag for it, so that it never shows in a process list",
  },
  { name: "VIDGEN_BASE_URL", flag: "--base-url", meaning: "the service's address; https, except on this machine" },
  { name: "VIDGEN_MODEL", flag: "--model", meaning: "the model, else `wan-2.5`" },
  {
    name: "VIDGEN_HOME",
    flag: null,
    meaning: "the folder for all that vidgen keeps, instead of the platform's own",
  },
  {
    name: "HTTPS_PROXY",
    flag: null,
    meaning: "the proxy for https addresses; this machine itself is never asked for by it",
  },
  { name: "HTTP_PROXY", flag: null, meaning: "the proxy for http addresses" },
  { name: "NO_PROXY", flag: null, meaning: "hosts that are reached without a proxy" },
  { name: "NODE_EXTRA_CA_CERTS", flag: null, meaning: "a file with further certificate authorities; Node reads it" },
  { name: "NO_COLOR", flag: "--no-color", meaning: "no colours" },
  { name: "FORCE_COLOR", flag: "--color", meaning: "colours where there is no terminal; 0 or false: none" },
  { name: "CLICOLOR_FORCE", flag: "--color", meaning: "the same; 0 says nothing" },
  { name: "TERM", flag: null, meaning: "`dumb`: no colours and no moving line" },
  { name: "CI", flag: "--no-input", meaning: "nothing is asked, and no line moves" },
  {
    name: "XDG_CONFIG_HOME",
    flag: null,
    meaning: "where Linux keeps settings; XDG_STATE_HOME and XDG_DATA_HOME likewise",
  },
];
