import { keys } from "./keys.ts";

/** The help for keyboard shortcuts, and the button that opens it. */
export function KeysHelp() {
  return (
    <>
      <button type="button" class="keys with-script" data-keys aria-label="Keys" aria-haspopup="dialog">
        ?
      </button>
      <dialog id="keys" aria-labelledby="keys-heading">
        <h2 id="keys-heading">Keys</h2>
        <dl class="facts-table">
          {Object.values(keys).map(({ shown, does }) => (
            <div>
              <dt>
                {shown.map((key) => (
                  <kbd>{key}</kbd>
                ))}
              </dt>
              <dd>{does}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button type="submit">Close</button>
        </form>
      </dialog>
    </>
  );
}
