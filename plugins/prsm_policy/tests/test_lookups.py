"""Commands that look things up at a service: asked about, until a person allows the class."""

from __future__ import annotations

import pytest
from prsm_policy.offers import with_rules

from plugins.prsm_policy.tests.judging import decide, setting
from prsm_core.config.policy_file import parse_rule
from prsm_core.domain.agents import PermissionMode
from prsm_core.domain.permissions import Ask
from prsm_core.policies.rule_classes import LOOK_UPS
from tests.command_policies import make_policy

ALLOWED = make_policy(allow=[LOOK_UPS])
LOOKS = [
    "gh pr view 12",
    "gh pr list --state open --limit 5 --json number,title --jq '.[].title'",
    "gh pr checks 12 && gh run view 3 --log-failed",
    "gh issue list --label bug | head -5",
    "gh search prs 'is:open author:me'",
    "docker ps -a",
    "docker images --format '{{.Repository}}'",
    "docker compose ps",
    "npm view react version",
    "npm outdated --json",
    "pip index versions requests",
    "kubectl get pods -n web -o wide",
    "kubectl get svc --all-namespaces",
    "kubectl get pods --output=name",
    "kubectl rollout status deploy/web",
    "kubectl config current-context",
    "helm list -A",
    "systemctl status nginx --no-pager",
    "apt-cache policy git",
    "aws sts get-caller-identity",
]
OTHERS = [
    "gh pr merge 12",
    "gh pr view 12 --web",
    "gh pr",
    "gh api repos/x/y",
    "gh auth token",
    "gh auth status --show-token",
    "gh secret list",
    "gh repo clone x/y",
    "gh run download 3",
    "gh alias list",
    "docker run alpine",
    "docker inspect web",
    "docker logs web",
    "docker -H tcp://other ps",
    "docker ps; docker rm web",
    "docker compose config",
    "docker compose -f ../x.yml ps",
    "npm install react",
    "npm config list",
    "npm view react > package.json",
    "yarn info react",
    "kubectl get secrets",
    "kubectl get secret web -o yaml",
    "kubectl get pods -o yaml",
    "kubectl get pods -ojson",
    "kubectl get pods --output=jsonpath={.spec}",
    "kubectl get pods,secrets",
    "kubectl --kubeconfig x get pods",
    "kubectl get pods --kubeconfig=x",
    "kubectl exec web -- env",
    "kubectl logs web",
    "kubectl describe secret web",
    "helm get values web",
    "systemctl restart nginx",
    "systemctl status nginx -H root@other",
    "apt install git",
    "aws secretsmanager get-secret-value --secret-id x",
    "aws s3 cp s3://a/b .",
    "aws sts get-caller-identity --endpoint-url http://x",
    "GH_HOST=evil gh pr list",
    "KUBECONFIG=x kubectl get pods",
    "./gh pr list",
    "gh pr list $(cat .env)",
    "gh pr list --search *",
    "sudo docker ps",
]


def decided(command, workspace, policy, **options):
    return decide(command, workspace, policy=policy, trusted=False, **options)


@pytest.mark.requirement("U9")
@pytest.mark.parametrize("command", LOOKS)
def test_a_look_up_asks_until_its_class_is_allowed_and_is_offered_as_that(command, tmp_path):
    plain, here = make_policy(), setting(tmp_path, trusted=False)
    verdict = plain.decide(command, here)
    assert isinstance(verdict, Ask)
    offered = with_rules(verdict, plain.open_parts(command, here))
    assert offered.allow_rules == ((LOOK_UPS,),)
    assert decided(command, tmp_path, ALLOWED) == "allow"


@pytest.mark.parametrize("command", OTHERS)
def test_what_changes_something_or_may_show_a_secret_is_no_look_up(command, tmp_path):
    assert decided(command, tmp_path, ALLOWED) == "ask"


@pytest.mark.parametrize("command", LOOKS)
def test_deny_and_ask_rules_go_before_the_class(command, tmp_path):
    program = command.split()[0]
    both = make_policy(allow=[LOOK_UPS], deny=[program])
    assert decided(command, tmp_path, both) == "deny"
    asking = make_policy(allow=[LOOK_UPS], ask=[program])
    assert decided(command, tmp_path, asking) == "ask"
    assert decided(command, tmp_path, ALLOWED, mode=PermissionMode.PLAN) == "deny"


def test_a_workspace_that_is_not_trusted_cannot_allow_the_class(tmp_path):
    policy = make_policy(workspace_allow=[LOOK_UPS])
    assert decide("gh pr list", tmp_path, policy=policy, trusted=False) == "ask"
    assert decide("gh pr list", tmp_path, policy=policy, trusted=True) == "allow"


def test_a_class_that_there_is_not_or_that_is_to_be_denied_is_no_rule():
    assert parse_rule(LOOK_UPS) == (LOOK_UPS,)
    for value, verdict in [("@look-up", "allow"), ("@look-ups gh", "allow"), (LOOK_UPS, "deny")]:
        with pytest.raises(ValueError, match="class of commands"):
            parse_rule(value, verdict)
