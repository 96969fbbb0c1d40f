// Where the log of a try is found: as a command, for whoever may read the account's logs.

// `log`: as the API tells it. Its filter has double quotes alone, so that single ones keep it from a shell.
export function logCommand({ group, filter, since, until }) {
  return [
    "aws logs filter-log-events",
    `--log-group-name ${group}`,
    `--start-time ${Date.parse(since)}`,
    `--end-time ${Date.parse(until)}`,
    `--filter-pattern '${filter}'`,
  ].join(" ");
}
