const yearSeconds = 31_536_000;

/** Stores the chosen colours in a cookie. The service writes them into every page, so that no page appears in other colours first. */
export function listenForTheme(): void {
  document.querySelector<HTMLSelectElement>("#theme")?.addEventListener("change", ({ target }) => {
    const { value } = target as HTMLSelectElement;
    // biome-ignore lint/suspicious/noDocumentCookie: the Cookie Store API needs https.
    document.cookie = `vidgen_theme=${value}; Max-Age=${value === "" ? 0 : yearSeconds}; Path=/; SameSite=Strict`;
    document.documentElement.dataset.theme = value;
  });
}
