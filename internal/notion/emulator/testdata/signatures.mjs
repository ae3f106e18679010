// Reads {token, signed: [{body, signature}], bodies}, bodies in base64, and answers whether Notion's
// SDK takes each signature, and how it signs each body.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const { verifyWebhookSignature, signWebhookPayload } = createRequire(process.argv[2])("@notionhq/client");
const { token, signed, bodies } = JSON.parse(await text(process.stdin));
const bytes = (body) => Buffer.from(body ?? "", "base64");
const taken = signed.map(({ body, signature }) => verifyWebhookSignature({ body: bytes(body), signature, verificationToken: token }));
const signatures = bodies.map((body) => signWebhookPayload({ body: bytes(body), verificationToken: token }));
console.log(JSON.stringify({ taken: await Promise.all(taken), signatures: await Promise.all(signatures) }));
