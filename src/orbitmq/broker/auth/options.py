"""The rows of Apache's AuthConfig."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.broker.auth.config_values import unauthenticated_codes, unauthorized_codes
from orbitmq.handling.credentials import first_user, own_credentials
from orbitmq.options import OptionError, Settings, option

_AUTHENTICATION = "org.apache.rocketmq.auth.authentication"
_STATEFUL = f"{_AUTHENTICATION}.strategy.StatefulAuthenticationStrategy"
_STATELESS = f"{_AUTHENTICATION}.strategy.StatelessAuthenticationStrategy"


@dataclass(kw_only=True)
class AuthSettings(Settings, owner="AuthConfig"):
    """Options of authentication and authorization."""

    authentication_enabled: bool = option(False, "Serve only requests signed by a known user.")
    authorization_enabled: bool = option(
        False, "Serve only requests that a rule allows to the user. Super users may do everything."
    )
    init_authentication_user: str | None = option(
        None,
        'Super user to create at the start if it does not exist: {"username":"...","password":"..."}.',
        secret=True,
    )
    inner_client_authentication_credentials: str | None = option(
        None,
        "Credentials for the broker's own requests to name servers and to its master. The broker creates a "
        'super user of this name if there is none: {"accessKey":"...","secretKey":"..."}.',
        secret=True,
    )
    authentication_whitelist: str | None = option(
        None, "Codes of requests that need no signature, separated by `,`."
    )
    authorization_whitelist: str | None = option(
        None, "Codes of requests that need no rule, separated by `,`."
    )
    authentication_strategy: str | None = option(
        None,
        "Stateless: check the signature of every request. Stateful: check one per user and "
        "connection, and keep the result for statefulAuthenticationCacheExpiredSecond.",
        only=(None, "", _STATELESS, _STATEFUL),
        reason="classes cannot be loaded; the two of Apache's are built in",
    )
    stateful_authentication_cache_max_num: int = option(
        10_000, "Maximum of results kept by the stateful strategy.", minimum=1
    )
    stateful_authentication_cache_expired_second: int = option(
        60, "Time that the stateful strategy keeps a result.", unit="s", minimum=1
    )
    auth_config_path: str | None = option(
        None, "The folder of auth.json, which holds users and rules; the folder config of the data folder."
    )
    auth_key_path: str | None = option(
        None,
        "File of the key that encrypts secrets in auth.json; auth.key beside auth.json if not set. Created "
        "if it does not exist.",
        owner="",
    )
    auth_secrets_shown_to: str = option(
        "superUsers",
        "Users to whom AUTH_GET_USER and AUTH_LIST_USER show secrets: super users who signed "
        "the request (Apache's `copyUser` needs it; Apache shows them to everybody who may "
        "list users), or nobody.",
        choices=("superUsers", "nobody"),
        owner="",
    )

    def complete(self) -> None:
        """Raises OptionError for lists and users that cannot be read; secrets are not in its text."""
        super().complete()
        for name, read in (
            ("initAuthenticationUser", first_user),
            ("innerClientAuthenticationCredentials", own_credentials),
            ("authenticationWhitelist", unauthenticated_codes),
            ("authorizationWhitelist", unauthorized_codes),
        ):
            try:
                read(self)
            except OptionError as error:
                raise OptionError(f"{self.sources.get(name, 'settings')}: {error}") from None
