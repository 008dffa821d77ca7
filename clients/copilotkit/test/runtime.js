// A runtime in a process of its own, to be killed: it starts a run, and says so once it has heard some of its text.
import { Page } from './page.js'

const [url, threadId, text] = process.argv.slice(2)
await new Page(url, threadId).say(text, {}, { onTextMessageContentEvent: () => void console.log('begun') })
