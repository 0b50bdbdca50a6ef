"""The orchestration tools: one table, and the handlers by topic.

table          the tools, their schemas and roles; checks names and arguments
arguments      what each of them takes, as structs, and what a model sees of it
mending        arguments as models mean them, before anything else reads them
communication  ask_parent, respond_to_child, wait_for_message, send_child_prompt
family         spawn_child, spawn_children_parallel, restart_child, and what looks at children:
               get_child_history, check_child_status, get_children_status; get_budget
advice         consult_expert, consult_peer, recommend_model
progress       report_progress, task_complete, ask_user
shell          run_bash
plugged        the tools that plugins add: who has them, and how their code is called
"""
