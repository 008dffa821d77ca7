// The Node side: the page, and CopilotKit's runtime between it and the agent.
process.env.COPILOTKIT_TELEMETRY_DISABLED ??= 'true'

import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { HttpAgent } from '@ag-ui/client'
import { CopilotRuntime } from '@copilotkit/runtime/v2'
import { createCopilotNodeListener } from '@copilotkit/runtime/v2/node'
import { EverstepAgentRunner } from '@everstep/copilotkit'
import { build } from 'esbuild'

const { values } = parseArgs({ options: { agent: { type: 'string', default: 'http://127.0.0.1:8080' }, port: { type: 'string', default: '3000' } } })

const runtime = new CopilotRuntime({
  agents: { default: new HttpAgent({ url: `${values.agent}/ag-ui` }) },
  runner: new EverstepAgentRunner({ url: values.agent }),
})
const copilotkit = createCopilotNodeListener({ runtime, basePath: '/api/copilotkit' })

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL('page.tsx', import.meta.url))],
  bundle: true,
  splitting: true, // what draws diagrams and colours code is loaded when there is some
  format: 'esm',
  minify: true,
  write: false,
  outdir: '/',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' },
  loader: { '.woff': 'empty', '.woff2': 'empty', '.ttf': 'empty' },
  logLevel: 'error',
})
const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>everstep and CopilotKit</title><link rel="stylesheet" href="/page.css"><div id="root"></div><script type="module" src="/page.js"></script></html>`
/** @type {Record<string, [type: string, body: string | Uint8Array]>} */
const files = { '/': ['text/html', html] }
for (const { path, contents } of outputFiles) files[path] = [path.endsWith('.css') ? 'text/css' : 'text/javascript', contents]

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost')
  if (pathname.startsWith('/api/copilotkit')) return copilotkit(request, response)
  const file = files[pathname]
  if (!file) return response.writeHead(404).end()
  response.writeHead(200, { 'content-type': `${file[0]}; charset=utf-8`, 'cache-control': 'no-store' }).end(file[1])
})
server.listen(Number(values.port), '127.0.0.1', () => {
  const address = server.address()
  if (address && typeof address === 'object') console.log(`listening on http://127.0.0.1:${address.port}`)
})
