"""What Redis does in one step, and where things lie there.

All keys of an agent have its id in braces, so that one step stays in one slot of a cluster. What is
in Redis is a copy for who reads it live; the ledger is the truth, and was written before.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "engine"
KEPT_SECONDS = 3600  # an answer, for a request that is made again
REPLY_SECONDS = 120  # an answer that nobody has fetched

SETTLE = """\
local known = redis.call('GET', KEYS[2])
local answer = known or ARGV[3]
if not known then
  if ARGV[1] ~= '' then
    local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1')
    if tonumber(ARGV[1]) > version then
      redis.call('HSET', KEYS[1], 'version', ARGV[1], 'state', ARGV[2])
      redis.call('PUBLISH', ARGV[6], ARGV[2])
    end
  end
  redis.call('SET', KEYS[2], answer, 'EX', ARGV[4])
end
redis.call('DEL', KEYS[3])
redis.call('RPUSH', KEYS[3], answer)
redis.call('EXPIRE', KEYS[3], ARGV[5])
if ARGV[7] ~= '' then
  redis.call('XACK', KEYS[4], ARGV[8], ARGV[7])
  redis.call('XDEL', KEYS[4], ARGV[7])
end
return answer
"""
"""Set the state if it is newer, tell of it, and give the answer: all, or nothing of it.

KEYS: state, answer of the id, reply list, requests. ARGV: version or '', state, answer, seconds the
answer is kept, seconds the reply is, channel, entry or '', group. It returns the answer that the id
has: one that it had before stays, and then nothing else is set.
"""

TELL = """\
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or '-1')
if tonumber(ARGV[1]) <= version then return 0 end
redis.call('HSET', KEYS[1], 'version', ARGV[1], 'state', ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[2])
return 1
"""
"""Set the state of an agent if it is newer, and tell of it. KEYS: state. ARGV: version, state,
channel."""

REFUSE = """\
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('XACK', KEYS[2], ARGV[4], ARGV[3])
redis.call('XDEL', KEYS[2], ARGV[3])
return 1
"""
"""Give an answer that is kept for no repeat. KEYS: reply list, requests. ARGV: answer, seconds,
entry, group."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Where an agent's things lie."""

    agent_id: str

    @property
    def base(self) -> str:
        """What all begin with."""
        return f"prsm:{{{self.agent_id}}}"

    @property
    def requests(self) -> str:
        """A stream: each entry has a request in its field `r`."""
        return f"{self.base}:requests"

    @property
    def state(self) -> str:
        """A hash: `version`, a number that grows, and `state`, JSON."""
        return f"{self.base}:state"

    @property
    def channel(self) -> str:
        """Where each new state is published."""
        return f"{self.base}:events"

    def reply(self, request_id: str) -> str:
        """A list: the answer to a request, for who asked to fetch."""
        return f"{self.base}:reply:{request_id}"

    def answer(self, request_id: str) -> str:
        """A text: the answer that a request has had."""
        return f"{self.base}:answer:{request_id}"
