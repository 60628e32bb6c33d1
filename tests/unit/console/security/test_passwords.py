import pytest

from orbitmq.console.security.passwords import WeakPassword, hash_password, is_password


def test_only_the_password_fits_its_hash_and_each_hash_has_its_own_salt() -> None:
    stored = hash_password("correct horse")
    assert is_password("correct horse", stored)
    assert not is_password("correct horsf", stored)
    assert stored != hash_password("correct horse")


@pytest.mark.parametrize("password", ["short", "x" * 257])
def test_passwords_have_a_least_and_a_greatest_length(password: str) -> None:
    with pytest.raises(WeakPassword, match="10 to 256 characters"):
        hash_password(password)


def test_a_hash_that_would_take_all_memory_is_refused() -> None:
    _, _, block, parallel, salt, key = hash_password("correct horse").split("$")
    with pytest.raises(ValueError, match="not a scrypt hash"):
        is_password("x", f"scrypt${1 << 30}${block}${parallel}${salt}${key}")
