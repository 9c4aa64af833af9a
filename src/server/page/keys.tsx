const keys = [
  { keys: ["/"], does: "Search" },
  { keys: ["←", "→", "↑", "↓"], does: "Go from card to card" },
  { keys: ["j"], does: "Next: the one below, or the generation before this one" },
  { keys: ["k"], does: "Previous: the one above, or the generation after this one" },
  { keys: ["Enter"], does: "Open" },
  { keys: ["Esc"], does: "Go back" },
  { keys: ["?"], does: "Show these keys" },
];

/** The keys of every page, which `?` shows, and the button for those who do not know that. */
export function Keys() {
  return (
    <>
      <button type="button" class="keys with-script" data-keys aria-label="Keys" aria-haspopup="dialog">
        ?
      </button>
      <dialog id="keys" aria-labelledby="keys-heading">
        <h2 id="keys-heading">Keys</h2>
        <dl class="facts-table">
          {keys.map(({ keys, does }) => (
            <div>
              <dt>
                {keys.map((key) => (
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
