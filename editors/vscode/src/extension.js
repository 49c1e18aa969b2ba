// Starts `gpuproof check --lsp` and connects it with the editor. The server does everything else.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { serverCommand } = require("./command");

const LANGUAGES = ["python", "terraform", "yaml", "json", "dockerfile", "shellscript", "makefile", "typescript"];
const INSTALL = 'pip install "gpuproof[lsp]"';

let client;

/** The interpreter that is selected in the Python extension; undefined without that extension. */
async function selectedInterpreter() {
  const extension = vscode.extensions.getExtension("ms-python.python");
  if (!extension) {
    return undefined;
  }
  const api = extension.isActive ? extension.exports : await extension.activate();
  const resource = vscode.workspace.workspaceFolders?.[0]?.uri;
  return api?.environments?.getActiveEnvironmentPath?.(resource)?.path;
}

async function start() {
  const setting = vscode.workspace.getConfiguration("gpuproof").get("command", []);
  const server = serverCommand(setting, await selectedInterpreter());
  client = new LanguageClient("gpuproof", "GPUproof", server, {
    documentSelector: [
      ...LANGUAGES.map((language) => ({ scheme: "file", language })),
      { notebook: "jupyter-notebook", language: "python" },
    ],
    synchronize: {
      fileEvents: vscode.workspace.createFileSystemWatcher("**/{*.py,*.ipynb,*.tf,*.yaml,*.yml,*.json,*.toml}"),
    },
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `GPUproof cannot start \`${server.command} ${server.args.join(" ")}\`: ${error.message}. ` +
        `Install it into the selected Python environment: ${INSTALL}`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("gpuproof.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("gpuproof.command")) {
        return restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
