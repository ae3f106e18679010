// Judges exchanges with Notion by the types of Notion's SDK: node judge.cjs MODULES. It reads a
// list of exchanges, and prints what is wrong. The compiler tells the types, and the values are
// compared with them here, key by key: assigned to a union, the compiler would take an object that
// mixes two of its members, or a page without most keys, because a "partial" page is a member.
"use strict";
const { readFileSync } = require("fs");
const { join } = require("path");
const ts = require(join(process.argv[2], "typescript"));
const source = join(process.argv[2], "@notionhq", "client", "build", "src");
const endpoints = require(join(source, "api-endpoints.js"));

// What Notion takes and answers although the types do not say so: in a file a text, which must be
// there once, and what replaces it. request_id is an exception, too, below. The code
// missing_version needs none: a request without a version is wrong itself.
const exceptions = {
  "data-sources.d.ts": [
    // Real databases have columns of these types.
    ["= DatabasePropertyConfigResponseCommon & (", '$&{ type: "button"; button: EmptyObject } | { type: "place"; place: EmptyObject } | { type: "verification"; verification: EmptyObject } | '],
    // Options of a status have a group since June 2026.
    ["type StatusPropertyResponse = {", "$& group?: string;"],
  ],
  "common.d.ts": [
    ["type StatusPropertyConfigRequest = {\n    options?: Array<{", "$& group?: string;"],
    ["type StatusPropertyConfigUpdateRequest = {\n    options?: Array<{", "$& group?: string;"],
    // A page shows 25 relations, and whether there are more.
    ["type RelationArrayBasedPropertyValueResponse = {", "$& has_more?: boolean;"],
  ],
};

// Every endpoint of the SDK has types by its name. A failure is what the SDK reads of one.
let judged = `import * as api from "./api-endpoints"; import { APIErrorCode, APIResponseError } from "./errors";
declare global { interface Blob {} } // of file uploads
export type Failure = {
  object: "error"; status: number; code: \`\${APIErrorCode}\`; message: string;
  additional_data?: APIResponseError["additional_data"]; request_id?: string;
};\n`;
const routes = [];
for (const [name, endpoint] of Object.entries(endpoints)) {
  const type = name[0].toUpperCase() + name.slice(1);
  // Every answer has a request_id, which the SDK reads in errors only.
  judged += `export type ${name}Request = api.${type}Parameters; export type ${name}Answer = api.${type}Response & { request_id?: string };\n`;
  const pattern = endpoint.path(Object.fromEntries(endpoint.pathParams.map((p) => [p, "PARAMETER"])));
  routes.push({ name, ...endpoint, matches: new RegExp(`^/v1/${pattern.replaceAll("PARAMETER", "([^/]+)")}$`) });
}
routes.sort((a, b) => a.pathParams.length - b.pathParams.length); // users/me comes before users/{id}

const options = { strict: true, noEmit: true, types: [], lib: ["lib.es5.d.ts"] };
const host = ts.createCompilerHost(options);
const main = join(source, "judged.ts");
const read = host.getSourceFile.bind(host);
host.getSourceFile = (file, ...rest) => {
  let text = file === main && judged;
  for (const [name, replaced] of Object.entries(exceptions)) {
    if (file.endsWith(`/api-endpoints/${name}`)) {
      text = readFileSync(file, "utf8");
      for (const [old, by] of replaced) {
        if (text.split(old).length !== 2) throw new Error(`${name} has not once: ${old}`);
        text = text.replace(old, by);
      }
    }
  }
  return text ? ts.createSourceFile(file, text, ...rest) : read(file, ...rest);
};
const program = ts.createProgram([main], options, host);
const checker = program.getTypeChecker();
const broken = program.getSourceFiles().filter((f) => f.fileName.startsWith(join(source, "api-endpoints")) || f.fileName === main)
  .flatMap((f) => [...program.getSyntacticDiagnostics(f), ...program.getSemanticDiagnostics(f)]);
if (broken.length > 0) throw new Error(ts.formatDiagnostics(broken, { ...host, getCurrentDirectory: () => "" }));
const types = Object.fromEntries(checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(main)))
  .map((s) => [s.name, checker.getDeclaredTypeOfSymbol(s)]));

// shape has the keys of an object's type, and the type of any other key, if it may have others.
const shapes = new Map();
function shape(type) {
  if (!shapes.has(type)) {
    const keys = new Map(checker.getPropertiesOfType(type).map((p) =>
      [p.name, { type: checker.getTypeOfSymbol(p), optional: Boolean(p.flags & ts.SymbolFlags.Optional) }]));
    shapes.set(type, { keys, others: checker.getIndexTypeOfType(type, ts.IndexKind.String) });
  }
  return shapes.get(type);
}

// refused reports whether a scalar's type refuses the value; undefined for the type of an object
// or an array.
function refused(value, type) {
  const { flags } = type;
  if (flags & ts.TypeFlags.StringOrNumberLiteral) return value !== type.value;
  if (flags & ts.TypeFlags.BooleanLiteral) return value !== (type.intrinsicName === "true");
  if (flags & ts.TypeFlags.String) return typeof value !== "string";
  if (flags & ts.TypeFlags.Number) return typeof value !== "number";
  if (flags & ts.TypeFlags.Null) return value !== null;
  if (flags & (ts.TypeFlags.Never | ts.TypeFlags.Undefined)) return true;
  if (flags & ts.TypeFlags.Unknown) return false;
  if (flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) return undefined;
  throw new Error(`no rule for the type ${checker.typeToString(type)}`);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const members = (type) => (type.isUnion() ? type.types : [type]);

// strangeTags counts the keys, such as type, whose words say that an object is of another member
// of a union than this one.
function strangeTags(value, member) {
  if (!isObject(value) || checker.isArrayType(member) || !(member.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return 0;
  return [...shape(member).keys].filter(([key, { type }]) => key in value &&
    members(type).every((m) => m.flags & (ts.TypeFlags.StringLiteral | ts.TypeFlags.Undefined) && refused(value[key], m))).length;
}

// faults returns what of a value the type refuses. at is the path to the value, and to the object
// whose key is wrong.
function faults(value, type, at) {
  const wrong = () => {
    const text = JSON.stringify(value);
    const wanted = checker.typeToString(type).replace(" | undefined", "");
    return [{ at, message: `${text.length > 60 ? `${text.slice(0, 60)}…` : text} is not ${wanted}` }];
  };
  if (type.isUnion()) {
    // The nearest member says what is wrong: first the one with the right tags, then the one with
    // the right keys.
    const tags = new Map(type.types.map((member) => [member, strangeTags(value, member)]));
    const least = Math.min(...tags.values());
    const cost = (found) => 1000 * found.filter((f) => f.at.length === at.length).length + found.length;
    let nearest;
    for (const member of type.types) {
      if (tags.get(member) > least) continue;
      const found = faults(value, member, at);
      if (found.length === 0) return found;
      if (!nearest || cost(found) < cost(nearest)) nearest = found;
    }
    return nearest[0].at.length > at.length || nearest[0].key !== undefined ? nearest : wrong();
  }
  const scalar = refused(value, type);
  if (scalar !== undefined) return scalar ? wrong() : [];
  if (checker.isArrayType(type)) {
    const [element] = checker.getTypeArguments(type);
    return Array.isArray(value) ? value.flatMap((v, i) => faults(v, element, [...at, `[${i}]`])) : wrong();
  }
  if (!isObject(value)) return wrong();
  const { keys, others } = shape(type);
  const found = [];
  for (const [key, v] of Object.entries(value)) {
    const known = keys.get(key)?.type ?? others;
    if (!known || known.flags & ts.TypeFlags.Never) found.push({ at, key, message: "unknown key" });
    else found.push(...faults(v, known, [...at, `.${key}`]));
  }
  for (const [key, { optional }] of keys) if (!optional && !(key in value)) found.push({ at, key, message: "missing key" });
  return found;
}

// parse returns what a JSON body says.
function parse(body) {
  try { return { value: JSON.parse(body) }; } catch (err) { return { err: String(err) }; }
}

// asked reads a parameter of the query, which is text, as the type wants it.
function asked(values, type) {
  const [first] = values;
  const readings = [first, /^\d+$/.test(first) && Number(first), first === "true", values];
  return readings.find((r) => (r === values || values.length === 1) && faults(r, type, []).length === 0) ?? first;
}

let bodies = 0;
const met = new Set();
const seen = new Map();
// judge judges a value once.
function judge(name, value) {
  const key = `${name} ${JSON.stringify(value)}`;
  if (!seen.has(key)) {
    seen.set(key, faults(value, types[name], []).map(({ at, key, message }) => [at.join("") + (key === undefined ? "" : `.${key}`), message]));
  }
  bodies++;
  return seen.get(key);
}

function request(route, exchange, url) {
  const found = [];
  const put = (part, at, message) => found.push(`${part} ${at}: ${message}`);
  const all = {};
  url.pathname.match(route.matches).slice(1).forEach((v, i) => { all[route.pathParams[i]] = decodeURIComponent(v); });
  const { keys } = shape(types[`${route.name}Request`]);
  for (const key of new Set(url.searchParams.keys())) {
    if (!route.queryParams.includes(key)) put("query", `.${key}`, "unknown key");
    else all[key] = asked(url.searchParams.getAll(key), keys.get(key).type);
  }
  const { value, err } = exchange.body ? parse(exchange.body) : {};
  if (err || (value !== undefined && !isObject(value))) return [`request body: ${err ?? "is not an object"}`];
  for (const [key, v] of Object.entries(value ?? {})) {
    if (route.queryParams.includes(key) || route.pathParams.includes(key)) put("request body", `.${key}`, "does not belong here");
    else all[key] = v;
  }
  for (const [at, message] of judge(`${route.name}Request`, all)) {
    put(route.queryParams.some((q) => at.startsWith(`.${q}`)) ? "query" : "request body", at, message);
  }
  return found;
}

function answer(route, exchange) {
  if (!exchange.status) return []; // the connection failed
  const failed = exchange.status >= 400;
  if (failed && !exchange.type.startsWith("application/json")) return []; // of the edge, not of Notion
  const { value, err } = parse(exchange.answer);
  if (err) return [`answer: ${err}`];
  return judge(failed ? "Failure" : `${route.name}Answer`, value).map(([at, message]) => `answer ${exchange.status} ${at}: ${message}`);
}

const refusals = JSON.parse(readFileSync(0, "utf8")).map((exchange) => {
  const url = new URL(exchange.url, "https://api.notion.com");
  if (exchange.version !== "2025-09-03") return [`Notion-Version: ${exchange.version} is not 2025-09-03`];
  const route = routes.find((r) => r.method === exchange.method.toLowerCase() && r.matches.test(url.pathname));
  if (!route) return ["unknown endpoint"];
  met.add(route.name);
  return [...request(route, exchange, url), ...answer(route, exchange)];
});
console.log(JSON.stringify({ bodies, endpoints: [...met].sort(), refusals }));
