import { useContext } from "hono/jsx";
import { isPlainHttp } from "../../protocol/url.ts";
import type { Repeats } from "./again.ts";
import { CopyButton } from "./elements.tsx";
import { VisitorContext } from "./layout.tsx";

const tabs = [
  { name: "vidgen", of: "vidgen" },
  { name: "PowerShell", of: "powershell" },
  { name: "curl", of: "curl" },
  { name: "JSON", of: "json" },
  { name: "Library", of: "library" },
] as const;

/** The commands and the code that repeat a request, each in a tab. The tabs are radio buttons, which work without a script. */
export function AgainCode({ again }: { again: Repeats }) {
  return (
    <div class="code">
      <fieldset class="tabs" data-own>
        <legend class="hidden">Show it for</legend>
        {tabs.map(({ name, of }) => (
          <label>
            <input type="radio" name="code" value={of} checked={of === "vidgen"} />
            {name}
          </label>
        ))}
      </fieldset>
      {tabs.map(({ name, of }) => (
        <section class="panel" data-panel={of} tabindex={0} aria-label={name}>
          {name === "curl" || name === "Library" ? <KeyHint /> : null}
          <CopyButton from={`code-${of}`} name={`for ${name}`} />
          <pre id={`code-${of}`}>{again[of]}</pre>
        </section>
      ))}
    </div>
  );
}

/** The environment variables that the code needs. */
function KeyHint() {
  const baseUrl = useContext(VisitorContext).terminal?.baseUrl;
  return (
    <p class="hint">
      Your API key is read from VIDGEN_API_KEY
      {baseUrl !== undefined && isPlainHttp(baseUrl) ? `; the library also needs VIDGEN_ALLOW_HTTP=${baseUrl}` : ""}.
    </p>
  );
}
