"""The rows of Apache's AuthConfig."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.auth.reading import (
    first_user,
    own_credentials,
    unauthenticated_codes,
    unauthorized_codes,
)
from orbitmq.options import Option, Settings, option, refused, without_effect

_OWNER = "AuthConfig"
_AUTHENTICATION = "org.apache.rocketmq.auth.authentication"
_AUTHORIZATION = "org.apache.rocketmq.auth.authorization"
_STATEFUL = f"{_AUTHENTICATION}.strategy.StatefulAuthenticationStrategy"
_STATELESS = f"{_AUTHENTICATION}.strategy.StatelessAuthenticationStrategy"


@dataclass(kw_only=True)
class AuthSettings(Settings):
    """Who is let in, and how that is found out."""

    authentication_enabled: bool = option(
        "authenticationEnabled",
        "boolean",
        False,
        "Serve only requests that a known user has signed.",
        owner=_OWNER,
    )
    authorization_enabled: bool = option(
        "authorizationEnabled",
        "boolean",
        False,
        "Serve only requests that a rule of their user allows; super users may do everything.",
        owner=_OWNER,
    )
    init_authentication_user: str | None = option(
        "initAuthenticationUser",
        "String",
        None,
        'A super user made at the start if it is not there: {"username":"...","password":"..."}.',
        owner=_OWNER,
        secret=True,
    )
    inner_client_authentication_credentials: str | None = option(
        "innerClientAuthenticationCredentials",
        "String",
        None,
        "What this broker signs its own requests to name servers with, made a super user here if there is"
        ' none of that name: {"accessKey":"...","secretKey":"..."}.',
        owner=_OWNER,
        secret=True,
    )
    authentication_whitelist: str | None = option(
        "authenticationWhitelist",
        "String",
        None,
        "Codes of requests that need no signature, with `,` between.",
        owner=_OWNER,
    )
    authorization_whitelist: str | None = option(
        "authorizationWhitelist",
        "String",
        None,
        "Codes of requests that need no rule, with `,` between.",
        owner=_OWNER,
    )
    authentication_strategy: str | None = option(
        "authenticationStrategy",
        "String",
        None,
        "Stateless: every request's signature is checked. Stateful: one of a user on a connection, and the"
        " result holds for statefulAuthenticationCacheExpiredSecond.",
        owner=_OWNER,
        only=(None, "", _STATELESS, _STATEFUL),
        reason="classes cannot be loaded; the two of Apache's are built in",
    )
    stateful_authentication_cache_max_num: int = option(
        "statefulAuthenticationCacheMaxNum",
        "int",
        10_000,
        "Results that the stateful strategy remembers.",
        owner=_OWNER,
        minimum=1,
    )
    stateful_authentication_cache_expired_second: int = option(
        "statefulAuthenticationCacheExpiredSecond",
        "int",
        60,
        "How long the stateful strategy remembers a result.",
        owner=_OWNER,
        unit="s",
        minimum=1,
    )
    auth_config_path: str | None = option(
        "authConfigPath",
        "String",
        None,
        "The folder of auth.json, which holds users and rules; the folder config of the data folder.",
        owner=_OWNER,
    )
    auth_key_path: str | None = option(
        "authKeyPath",
        "String",
        None,
        "The file of the key that secrets in auth.json are sealed with, made if there is none; auth.key"
        " beside auth.json.",
        owner="",
    )
    auth_secrets_shown_to: str = option(
        "authSecretsShownTo",
        "String",
        "superUsers",
        "Whom AUTH_GET_USER and AUTH_LIST_USER show users' secrets: super users who signed the request"
        " (Apache's `copyUser` needs it; Apache shows them to everybody who may list users), or nobody.",
        owner="",
        choices=("superUsers", "nobody"),
    )

    def complete(self) -> None:
        """Raises OptionError for lists and users that cannot be read; secrets are not in its text."""
        super().complete()
        for read in (first_user, own_credentials, unauthenticated_codes, unauthorized_codes):
            read(self)


AUTH_ROWS: list[Option] = [
    *refused(
        "classes cannot be loaded; what these of Apache's do is built in",
        _OWNER,
        *(
            Option(name, "String", None, only=(None, "", f"{package}.provider.{wanted}"))
            for name, package, wanted in (
                ("authenticationProvider", _AUTHENTICATION, "DefaultAuthenticationProvider"),
                ("authenticationMetadataProvider", _AUTHENTICATION, "LocalAuthenticationMetadataProvider"),
                ("authorizationProvider", _AUTHORIZATION, "DefaultAuthorizationProvider"),
                ("authorizationMetadataProvider", _AUTHORIZATION, "LocalAuthorizationMetadataProvider"),
            )
        ),
    ),
    *refused(
        "plain_acl.yml is not read: create its users and rules anew",
        _OWNER,
        ("migrateAuthFromV1Enabled", "boolean", False),
    ),
    *without_effect(
        "decisions hold until a user or rule changes, whichever strategy is named",
        _OWNER,
        ("authorizationStrategy", "String", None),
        ("statefulAuthorizationCacheMaxNum", "int", 10_000),
        ("statefulAuthorizationCacheExpiredSecond", "int", 60),
    ),
    *without_effect(
        "users and rules are in memory, all of them and always as they are now",
        _OWNER,
        ("userCacheMaxNum", "int", 1000),
        ("userCacheExpiredSecond", "int", 600),
        ("userCacheRefreshSecond", "int", 60),
        ("aclCacheMaxNum", "int", 1000),
        ("aclCacheExpiredSecond", "int", 600),
        ("aclCacheRefreshSecond", "int", 60),
    ),
    *without_effect(
        "follows from brokerName and brokerClusterName, as in Apache's broker",
        _OWNER,
        ("configName", "String", None),
        ("clusterName", "String", None),
    ),
]
