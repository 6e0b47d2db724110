for (const line of document.querySelectorAll("pre.command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.className = "copy";
  button.setAttribute("aria-label", "Copy the command");
  button.addEventListener("click", async () => {
    getSelection().selectAllChildren(line);
    // The clipboard is only there over https and on this machine; what is selected can be copied anywhere.
    try { await navigator.clipboard.writeText(line.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "Copied";
  });
  line.before(button);
}
