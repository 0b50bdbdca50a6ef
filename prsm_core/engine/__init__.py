"""The engine: agents, their turns and tools, and read-only views of what happened.

A run       engine; assembly and runtime (the parts that agents share); background (where tasks
            are born); journal and feed (steps committed, readers told), secrecy, sinks, stopping
An agent    agent_manager, records, agent_session; spawning, grants, model_choice, model_parameters,
            mcp_servers
A turn      turn_run, turn, context, intake, host; calls and long_calls (orchestration calls);
            watch and clocks (deadlines); slots; retry, breaker, profiles, failover, rebuild
Between     knots (deadlocks), delivery (a person's prompts), human (requests to a person)
Judging     stuck, stuck_watch; evidence, baseline, command_log, gates
Spending    budgets, purses, budget_alerts
The tools   tools/
Processes   processes, process_child, process_io, process_table, reaper_shim, orphans;
            shell, sandbox
Outside     providers; outside (a master somebody else drives); session_lock, control,
            control_wire, control_client; views
"""
